package signals

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/testredis"
	"sluice/shedding"
)

// read reads once, and fails the test where that gives an error.
func readOnce(t *testing.T, r Reader) shedding.Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := r.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readError(t *testing.T, r Reader) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := r.Read(ctx)
	if err == nil {
		t.Fatalf("no error, but %+v", s)
	}
	return err
}

// readAgain reads until a source that was away is read again.
func readAgain(t *testing.T, r Reader) shedding.Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		s, err := r.Read(ctx)
		if err == nil {
			return s
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not read again: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// near checks a value that has to be known.
func near(t *testing.T, what string, v shedding.Value, want, slack float64) {
	t.Helper()
	got, known := v.Get()
	if !known || got < want-slack || got > want+slack {
		t.Errorf("%s is %v (known: %v), want %v give or take %v", what, got, known, want, slack)
	}
}

func unknown(t *testing.T, what string, v shedding.Value) {
	t.Helper()
	if got, known := v.Get(); known {
		t.Errorf("%s is %v, want it unknown", what, got)
	}
}

func closing(t *testing.T, r Reader) {
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
}

func TestRedisStream(t *testing.T) {
	server := testredis.Start(t)
	r, err := NewRedisStream(RedisStreamOptions{URL: "redis://" + server.Addr + "/0", Stream: "orders", Group: "workers"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)

	// Absence is an error, never an empty queue.
	readError(t, r)
	server.Must("XGROUP", "CREATE", "orders", "others", "$", "MKSTREAM")
	if err := readError(t, r); !strings.Contains(err.Error(), "workers") {
		t.Errorf("the error does not name the group: %v", err)
	}

	server.Must("XGROUP", "CREATE", "orders", "workers", "0")
	s := readOnce(t, r)
	near(t, "age of an empty stream", s.Age, 0, 0)
	near(t, "depth of an empty stream", s.Depth, 0, 0)

	for range 10 {
		server.Must("XADD", "orders", "*", "job", "1")
	}
	time.Sleep(50 * time.Millisecond) // the server's clock is what is measured
	s = readOnce(t, r)
	near(t, "age", s.Age, .05, 10)
	if age, _ := s.Age.Get(); age < .05 {
		t.Errorf("age is %v after 50 ms", age)
	}
	near(t, "depth", s.Depth, 10, 0)

	server.Must("XREADGROUP", "GROUP", "workers", "w1", "COUNT", "4", "STREAMS", "orders", ">")
	s = readOnce(t, r)
	near(t, "depth after 4 were taken", s.Depth, 6, 0)
	near(t, "completions before any", s.Done, 0, 0)
	first := strings.Fields(server.Must("XRANGE", "orders", "-", "+", "COUNT", "2"))
	server.Must("XACK", "orders", "workers", first[0], first[2]+"")
	s = readOnce(t, r)
	near(t, "completions", s.Done, 1, 1)

	server.Must("XREADGROUP", "GROUP", "workers", "w1", "COUNT", "100", "STREAMS", "orders", ">")
	s = readOnce(t, r)
	near(t, "age after all were taken", s.Age, 0, 0)
	near(t, "depth after all were taken", s.Depth, 0, 0)

	// A killed server is an error; once it is back, so is the reader.
	server.Kill()
	readError(t, r)
	server.Restart()
	readAgain(t, r)
}

func TestRedisStreamThatWasTrimmedHasNoDepth(t *testing.T) {
	server := testredis.Start(t)
	r, err := NewRedisStream(RedisStreamOptions{URL: "redis://" + server.Addr, Stream: "s", Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	server.Must("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	for range 10 {
		server.Must("XADD", "s", "*", "a", "b")
	}
	server.Must("XTRIM", "s", "MAXLEN", "=", "2")
	s := readOnce(t, r)
	if d, known := s.Depth.Get(); known && d != 2 {
		t.Errorf("depth is %v with 2 entries left", d)
	}
	near(t, "age", s.Age, 0, 10)
}

func TestRedisStreamWithMadeUpIdsIsAbsurd(t *testing.T) {
	server := testredis.Start(t)
	r, err := NewRedisStream(RedisStreamOptions{URL: "redis://" + server.Addr, Stream: "s", Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	server.Must("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	server.Must("XADD", "s", "5-1", "a", "b")
	s := readOnce(t, r)
	gate, err := shedding.New(shedding.Options{Classes: 1, Queues: []shedding.QueueOptions{{
		Name: "q", MaxUsefulAge: time.Minute, Bands: []shedding.Band{{}}, Signals: []shedding.SignalOptions{{Name: "s", Every: time.Second}},
	}}}, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if flaw, err := gate.Observe(time.Now(), "q", "s", s); err != nil || flaw != shedding.Absurd {
		t.Errorf("an age of decades is %v, want absurd", flaw)
	}
}

func TestRedisOptionsHideThePassword(t *testing.T) {
	_, err := NewRedisStream(RedisStreamOptions{URL: "http://user:hunter2@x", Stream: "s", Group: "g"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
	if _, err := NewRedisStream(RedisStreamOptions{URL: "redis://x"}); err == nil {
		t.Error("no error without stream and group")
	}
}
