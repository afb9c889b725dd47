package idempotency

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Risk is something about a Redis server that endangers what the gate
// promises.
type Risk struct {
	Node  string // address, where there are several
	Fatal bool   // the store cannot work like this
	Text  string // what is at risk, and what would be right
}

func (r Risk) String() string {
	if r.Node == "" {
		return r.Text
	}
	return r.Node + ": " + r.Text
}

// Check asks Redis, or every master of a cluster, whether it is fit to keep
// records: version, eviction, persistence, replication. No risks and no error
// means that it is. An error means that it could not be asked.
func (s *Redis) Check(ctx context.Context) ([]Risk, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		var mu sync.Mutex
		var risks []Risk
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			found, err := checkNode(ctx, node, node.Options().Addr)
			mu.Lock()
			defer mu.Unlock()
			risks = append(risks, found...)
			return err
		})
		return risks, err
	}
	return checkNode(ctx, s.client, "")
}

func checkNode(ctx context.Context, node redis.Cmdable, address string) ([]Risk, error) {
	// INFO is allowed where CONFIG is not, as with most hosted servers.
	text, err := node.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redis: check: %w", err)
	}
	risks := assess(parseInfo(text))
	for i := range risks {
		risks[i].Node = address
	}
	return risks, nil
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[k] = v
		}
	}
	return info
}

// assess judges what a server says about itself.
func assess(info map[string]string) []Risk {
	var risks []Risk
	add := func(fatal bool, format string, args ...any) {
		risks = append(risks, Risk{Fatal: fatal, Text: fmt.Sprintf(format, args...)})
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		add(true, "version is %q; claims need SET with NX and GET, which came with Redis 7.0", version)
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		risk := "records may be evicted as soon as maxmemory is set"
		if info["maxmemory"] != "0" {
			risk = "records may be evicted when memory runs short"
		}
		add(false, "maxmemory-policy is %s: %s, and their requests then executed twice; set it to noeviction", policy, risk)
	}
	switch aof := info["aof_enabled"] == "1"; {
	case aof && info["aof_last_write_status"] == "err":
		add(false, "the last write to the append-only file failed: what is claimed now is forgotten in a restart; look at the disk")
	case !aof:
		add(false, "appendonly is off: a restart forgets what happened since the last snapshot, or everything, and those requests may then be executed twice; set appendonly to yes")
	}
	if info["role"] == "slave" {
		add(true, "this server is a replica and refuses writes; name its master, or use Sentinel")
	}
	if n, _ := strconv.Atoi(info["connected_slaves"]); n > 0 && info["role"] == "master" {
		add(false, "it has %d replicas: a failover loses writes that had not reached the new master, and a request claimed in that moment may be executed twice; min-replicas-to-write narrows this", n)
	}
	return risks
}
