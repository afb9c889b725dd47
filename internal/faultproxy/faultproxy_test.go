package faultproxy

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo is a server that counts the lines it gets and sends them back.
type echo struct {
	addr string
	mu   sync.Mutex
	got  []string
	seen chan struct{}
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: l.Addr().String(), seen: make(chan struct{}, 100)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				in := bufio.NewScanner(c)
				for in.Scan() {
					e.mu.Lock()
					e.got = append(e.got, in.Text())
					e.mu.Unlock()
					e.seen <- struct{}{}
					c.Write([]byte(in.Text() + "\n"))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return e
}

func start(t *testing.T) (*Proxy, *echo) {
	e := newEcho(t)
	p, err := New(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, e
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(c net.Conn, line string, limit time.Duration) (string, error) {
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

func TestForwardsUnchanged(t *testing.T) {
	p, _ := start(t)
	got, err := ask(dial(t, p), "hello", 5*time.Second)
	if got != "hello\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestADroppedReplyWasActedOn(t *testing.T) {
	p, e := start(t)
	p.DropReplies(1)
	if got, err := ask(dial(t, p), "lost", 5*time.Second); err == nil {
		t.Fatalf("got the reply %q, which should have been lost", got)
	}
	<-e.seen
	if p.Dropped() != 1 {
		t.Errorf("dropped %d replies, want 1", p.Dropped())
	}
	if got, err := ask(dial(t, p), "kept", 5*time.Second); got != "kept\n" {
		t.Errorf("the reply after the lost one: %q, %v", got, err)
	}
}

func TestABlackHoleShowsNoSign(t *testing.T) {
	p, e := start(t)
	c := dial(t, p)
	if _, err := ask(c, "before", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	<-e.seen
	p.BlackHole(true)
	if _, err := ask(c, "swallowed", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("in a black hole the client got %v, want its own deadline", err)
	}
	p.BlackHole(false)
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after a black hole the client got %v, want a reset", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.got) != 1 {
		t.Errorf("the server got %q, want only the line from before", e.got)
	}
}

func TestCutRefusesUntilMended(t *testing.T) {
	p, _ := start(t)
	c := dial(t, p)
	if _, err := ask(c, "before", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Cut(true)
	if got, err := ask(c, "on the old connection", 5*time.Second); err == nil {
		t.Errorf("an old connection still answers %q", got)
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // refused at once, or as soon as it is used
		if got, err := ask(c, "on a new one", 5*time.Second); err == nil {
			t.Errorf("a new connection answers %q", got)
		}
		c.Close()
	}
	p.Heal()
	if _, err := ask(dial(t, p), "after", 5*time.Second); err != nil {
		t.Errorf("after healing: %v", err)
	}
}

func TestLatencyDelaysReplies(t *testing.T) {
	p, _ := start(t)
	p.Latency(30 * time.Millisecond)
	from := time.Now()
	if _, err := ask(dial(t, p), "slow", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(from); took < 30*time.Millisecond {
		t.Errorf("took %v, want 30ms or more", took)
	}
}
