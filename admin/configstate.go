package admin

import (
	"slices"
	"sync"
	"time"
)

// ReloadRecord is one attempt to load the configuration.
type ReloadRecord struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`        // start, signal, file, admin
	Hash    string    `json:"hash,omitempty"` // of the configuration it brought; "" where it failed
	Error   string    `json:"error,omitempty"`
	Changed []string  `json:"changed,omitempty"`
}

// keptReloads is how many attempts are remembered.
const keptReloads = 20

type reloadKey struct{ trigger, result string }

// configState is what metrics know of the configuration.
type configState struct {
	mu      sync.Mutex
	hash    string
	loaded  time.Time
	failed  bool
	counts  map[reloadKey]uint64
	history []ReloadRecord // newest first
}

// ConfigLoaded records an attempt to load the configuration, the first one at
// the start included. Every trigger is recorded here and nowhere else.
func (m *Metrics) ConfigLoaded(r ReloadRecord) {
	c := &m.config
	c.mu.Lock()
	defer c.mu.Unlock()
	result := "ok"
	c.failed = r.Error != ""
	if c.failed {
		result = "failed"
	} else {
		c.hash, c.loaded = r.Hash, r.At
	}
	if c.counts == nil {
		c.counts = make(map[reloadKey]uint64)
	}
	c.counts[reloadKey{r.Trigger, result}]++
	c.history = append([]ReloadRecord{r}, c.history[:min(len(c.history), keptReloads-1)]...)
}

// Reloads returns the latest attempts to load the configuration, newest first.
func (m *Metrics) Reloads() []ReloadRecord {
	m.config.mu.Lock()
	defer m.config.mu.Unlock()
	return slices.Clone(m.config.history)
}
