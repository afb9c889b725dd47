package replay

import (
	"testing"
	"time"
)

// A recording may span years, by a clock that was set: that takes no longer.
func TestClockThatJumps(t *testing.T) {
	cfg := parse(t, policy)
	var r recorder
	r.policy(cfg, nil)
	r.line("signal", map[string]any{"ts": at(3), "queue": "work", "signal": "push", "age": 30})
	r.decision(5, map[string]any{"path": "/batch", "route": "batch", "class": "low"})
	r.decision(6, map[string]any{"path": "/batch", "route": "batch", "class": "low", "received": "2099-05-01T12:00:00Z"})
	begin := time.Now()
	if report := r.run(t, cfg); report.Compared != 2 || time.Since(begin) > 5*time.Second {
		t.Errorf("%d decisions were compared in %v", report.Compared, time.Since(begin))
	}
}
