package idempotency

import (
	"strings"
	"testing"
)

func TestRisksOfARedisAreNamed(t *testing.T) {
	fit := map[string]string{"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "maxmemory": "0", "aof_enabled": "1", "aof_last_write_status": "ok", "role": "master", "connected_slaves": "0"}
	if risks := assess(fit); len(risks) != 0 {
		t.Errorf("a fit server has risks: %v", risks)
	}
	for _, tt := range []struct {
		key, value, word string
		fatal            bool
	}{
		{"redis_version", "6.2.14", "version", true},
		{"redis_version", "", "version", true},
		{"maxmemory_policy", "allkeys-lru", "evict", false},
		{"aof_enabled", "0", "appendonly", false},
		{"aof_last_write_status", "err", "disk", false},
		{"role", "slave", "replica", true},
		{"connected_slaves", "2", "failover", false},
	} {
		info := map[string]string{}
		for k, v := range fit {
			info[k] = v
		}
		info[tt.key] = tt.value
		risks := assess(info)
		if len(risks) != 1 || risks[0].Fatal != tt.fatal || !strings.Contains(risks[0].Text, tt.word) {
			t.Errorf("%s %q: %+v, want one about %s, fatal %v", tt.key, tt.value, risks, tt.word, tt.fatal)
		}
	}
}
