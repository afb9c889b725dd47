package target

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCountersAreRead(t *testing.T) {
	c, err := parseCounters(strings.NewReader(`# HELP sluice_requests_received_total x
# TYPE sluice_requests_received_total counter
sluice_requests_received_total 12
sluice_decisions_total{class="bulk",mode="enforce",reason="shed",route="a,\"}b",verdict="refuse"} 3
sluice_decisions_total{class="bulk",mode="enforce",reason="shed",route="c",verdict="refuse"} 1
sluice_decisions_total{class="bulk",mode="shadow",reason="shed",route="c",verdict="refuse"} 70
sluice_decisions_total{class="bulk",mode="enforce",reason="none",route="c",verdict="admit"} 8
sluice_request_failures_total{class="bulk",reason="origin_failed",route="c"} 2
sluice_config_info{hash="abc"} 1
something_else{x="y"} NaN
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Counters{
		Received: 12, Verdicts: map[string]int64{"refuse": 4, "admit": 8}, Reasons: map[string]int64{"shed": 4},
		Failures: map[string]int64{"origin_failed": 2}, Config: "abc",
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

func TestOtherMetricsAreNotTakenForAGateways(t *testing.T) {
	if _, err := parseCounters(strings.NewReader("up 1\n")); err == nil {
		t.Error("metrics of something else pass for a gateway's")
	}
}

// What this process burns, by the system's own account, shows in its usage.
func TestUsageCountsCPUTime(t *testing.T) {
	own := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, start := ProcessUsage(os.Getpid()), own()
	for own()-start < 200*time.Millisecond {
	}
	after := ProcessUsage(os.Getpid())
	if after.PeakMemory == 0 {
		t.Skip("this system does not tell what a process uses")
	}
	if d := after.CPU - before.CPU; d < 200*time.Millisecond-3*tick || d > 200*time.Millisecond+20*tick {
		t.Errorf("200ms of work show as %v", d)
	}
}
