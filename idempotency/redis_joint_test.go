package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testredis"
)

func jointStore(t *testing.T, server *testredis.Server) *Redis {
	t.Helper()
	s, err := NewRedis(mustCodec(t, CodecOptions{}), RedisOptions{URL: "redis://" + server.Addr, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inFlightRecord and settledRecord are the n-th claim's record before and after its
// request.
func inFlightRecord(n byte) *Record {
	return &Record{State: InFlight, Owner: Owner{Token: [16]byte{n + 1}, Attempt: 1}, Lease: time.Second, Retention: time.Hour}
}

func settledRecord(n byte) *Record {
	r := *inFlightRecord(n)
	r.State, r.Answer = Completed, &Answer{Status: 201, Body: []byte{n}}
	return &r
}

// settleTogether settles the n-th claims of names in one batch, and returns what
// each was told.
func settleTogether(s *Redis, names ...string) []error {
	it := &batch{deadline: time.Now().Add(10 * time.Second), done: make(chan struct{})}
	for i, name := range names {
		c := settleKind.get(name)
		r := settledRecord(byte(i))
		c.token = r.Owner.Token
		c.write(s.codec, r)
		it.commands = append(it.commands, c)
	}
	s.batches.lead(it)
	errs := make([]error, len(names))
	for i, c := range it.commands {
		reply, err := c.reply()
		errs[i] = s.done(reply, explained("settle", err))
	}
	return errs
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("sluice-test:", prefix, " ", i)
	}
	return all
}

func calls(server *testredis.Server, command string) string {
	_, rest, _ := strings.Cut(server.Must("INFO", "commandstats"), "cmdstat_"+command+":calls=")
	n, _, _ := strings.Cut(rest, ",")
	return n
}

func TestSettlesOfABatchAreOneCallAndFareEachByItself(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	s := jointStore(t, server)
	if err := s.Settle(t.Context(), "sluice-test:loads the script", settledRecord(0).Owner, settledRecord(0)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(settleTogether(s, names("learns", 2)...)...); err != nil {
		t.Fatal(err)
	}
	all := names("mixed", 7)
	want := []error{nil, nil, nil, ErrLost, ErrCorrupt, ErrCorrupt, nil}
	for i, plant := range []*Record{0: inFlightRecord(0), 1: settledRecord(1), 2: nil, 3: inFlightRecord(99), 6: inFlightRecord(6)} {
		if plant != nil {
			server.Must("SET", all[i], string(s.codec.encode(all[i], plant)), "PX", "3600000")
		}
	}
	server.Must("SET", all[4], "no record")
	server.Must("RPUSH", all[5], "no string")
	server.Must("CONFIG", "RESETSTAT")
	errs := settleTogether(s, all...)
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			t.Errorf("record %d: %v, want %v", i, err, want[i])
		}
	}
	if n := calls(server, "evalsha"); n != "1" {
		t.Errorf("%s calls of the script, want 1", n)
	}
	for i, name := range all {
		if want[i] != nil {
			continue
		}
		if found, err := s.Read(t.Context(), name); err != nil || found.Record == nil || found.Record.State != Completed || found.Record.Answer.Body[0] != byte(i) {
			t.Errorf("record %d is %+v, %v; want its own answer", i, found.Record, err)
		}
	}
	if found, err := s.Read(t.Context(), all[3]); err != nil || !found.Record.Owner.same(inFlightRecord(99).Owner) || found.Record.State != InFlight {
		t.Errorf("somebody else's record is %+v, %v", found.Record, err)
	}
}

// settleAtOnce has many callers settle at the same time.
func settleAtOnce(t *testing.T, s *Redis, prefix string) {
	t.Helper()
	var wg sync.WaitGroup
	for i, name := range names(prefix, 100) {
		wg.Go(func() {
			r := settledRecord(byte(i))
			if err := s.Settle(context.Background(), name, r.Owner, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}

func TestScriptsForgottenInTheMiddleAreSentAgain(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	s := jointStore(t, server)
	for round := range 5 {
		settleAtOnce(t, s, fmt.Sprint("before ", round))
		server.Must("SCRIPT", "FLUSH")
		for i, err := range settleTogether(s, names(fmt.Sprint("flushed ", round), 3)...) {
			if err == nil || !strings.Contains(err.Error(), "NOSCRIPT") {
				t.Errorf("command %d of a batch to a server without scripts: %v", i, err)
			}
		}
		settleAtOnce(t, s, fmt.Sprint("after ", round))
	}
	if s.batches.joining.Load() != joinYes {
		t.Error("settles are not joined any more")
	}
}

// A cluster's node, reached by its URL, refuses names of several slots in one
// call.
func TestSettlesAreNotJoinedAcrossSlots(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no", "--cluster-enabled", "yes")
	server.Must("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(server.Must("CLUSTER", "INFO"), "cluster_state:ok"); {
		if time.Now().After(end) {
			t.Fatal("the cluster of one node does not come up")
		}
	}
	s := jointStore(t, server)
	for i, err := range settleTogether(s, names("asks", 5)...) {
		if err != nil && !strings.Contains(err.Error(), "NOSCRIPT") {
			t.Errorf("command %d: %v", i, err)
		}
	}
	if s.batches.joining.Load() != joinNo {
		t.Error("the node of a cluster is asked to settle several records in one call")
	}
	// One that has become a cluster's node later says so.
	s.batches.joining.Store(joinYes)
	settleAtOnce(t, s, "loads the script")
	s.batches.joining.Store(joinYes)
	for i, err := range settleTogether(s, names("crosses", 5)...) {
		if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
			t.Errorf("command %d: %v, want a refusal for its slot", i, err)
		}
	}
	if s.batches.joining.Load() != joinNo {
		t.Error("settles are joined although their slots differ")
	}
	s.batches.joining.Store(joinYes)
	settleAtOnce(t, s, "goes on alone")
}

// Who may not ask what the server is gets along with commands by themselves.
func TestSettlesAreNotJoinedWhereTheServerDoesNotSayWhatItIs(t *testing.T) {
	server := testredis.Start(t, "--appendfsync", "no")
	server.Must("ACL", "SETUSER", "default", "-info")
	s := jointStore(t, server)
	settleAtOnce(t, s, "unknown")
	settleTogether(s, names("asks", 2)...)
	if s.batches.joining.Load() != joinNo {
		t.Error("settles are joined at a server of which nothing is known")
	}
	settleAtOnce(t, s, "known")
}
