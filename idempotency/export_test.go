package idempotency

import (
	"testing"
	"time"
)

// AgeForTest makes a record older by d.
func (m *Memory) AgeForTest(t testing.TB, name string, d time.Duration) {
	s := m.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		m.used.Add(s.put(name, e.value, e.expires.Add(-d)))
	}
}

// PlantForTest puts bytes under a name.
func (m *Memory) PlantForTest(t testing.TB, name string, value []byte) {
	s := m.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.used.Add(s.put(name, value, time.Now().Add(time.Hour)))
}
