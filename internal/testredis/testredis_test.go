package testredis

import "testing"

func TestARestartKeepsWhatWasWritten(t *testing.T) {
	s := Start(t)
	s.Must("SET", "a", "1")
	s.Kill()
	if _, err := s.Do("PING"); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Restart()
	if got := s.Must("GET", "a"); got != "1" {
		t.Errorf("after a restart a is %q, want 1", got)
	}
}

func TestAClusterCoversAllSlots(t *testing.T) {
	nodes := StartCluster(t)
	served := 0
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		for _, n := range nodes {
			if _, err := n.Do("SET", key, "1"); err == nil {
				served++
			}
		}
	}
	if served != 6 {
		t.Errorf("%d of 6 keys have exactly one home", served)
	}
}

func TestSentinelsPromoteTheReplica(t *testing.T) {
	w := StartWatched(t)
	w.FailOver()
	if reply, err := w.Replica.Do("SET", "a", "1"); err != nil {
		t.Errorf("the promoted replica refuses writes: %v %s", err, reply)
	}
}
