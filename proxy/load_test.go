package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// idleClients names the variable by which this test program, started again,
// knows that it is to hold idle connections: "address count used". In a process
// of their own they need no file descriptors of the gateway's.
const idleClients = "SLUICE_TEST_IDLE_CLIENTS"

// TestHoldIdleConnections is that second process, and does nothing otherwise.
func TestHoldIdleConnections(t *testing.T) {
	var addr string
	var count int
	var used bool
	if n, _ := fmt.Sscan(os.Getenv(idleClients), &addr, &count, &used); n != 3 {
		t.Skip("only of use to TestIdleConnections")
	}
	conns := make([]net.Conn, count)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		if used {
			if _, err := io.WriteString(c, "GET /pub HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			readReply(t, bufio.NewReader(c), "GET")
		}
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other process lets go
	runtime.KeepAlive(conns)
}

// holdIdle opens connections from another process, and returns what closes them.
func holdIdle(t testing.TB, addr string, count int, used bool) (release func()) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestHoldIdleConnections$", "-test.v")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %v", idleClients, addr, count, used))
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		if strings.Contains(lines.Text(), "FAIL") {
			t.Fatal(lines.Text())
		}
	}
	return func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = child.Wait()
	}
}

// Property 13: an idle connection costs little, whether it has served requests
// or not, and 10,000 of them leave room for everybody else.
func TestIdleConnections(t *testing.T) {
	baseline(t)
	count := 10_000
	if raced || testing.Short() {
		count = 1_000
	}
	g := startGateway(t, func(o *Options, _ *Policy) {
		o.Limits.HeaderTimeout, o.Limits.IdleTimeout = time.Minute, time.Minute
		o.Observer = blind{}
	}, newPlayer(t, sayOn(head5+"hello")).addr)
	stillWorks(t, g)
	for _, used := range []bool{false, true} {
		before := memory()
		release := holdIdle(t, g.addr, count, used)
		eventually(t, "they are open", func() bool { return g.Connections() >= count })
		each := (memory() - before) / int64(count)
		t.Logf("%d idle connections, used before: %v, take %d bytes each", count, used, each)
		if limit := int64(24 << 10); each > limit && !raced {
			t.Errorf("an idle connection takes %d bytes, more than %d", each, limit)
		}
		for range 20 {
			stillWorks(t, g)
		}
		release()
		eventually(t, "they are gone", func() bool { return g.Connections() == 0 })
	}
}

// memory is what the process holds after a collection: heap and stacks.
func memory() int64 {
	var m runtime.MemStats
	for range 2 { // the second empties what pools keep for one cycle
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Slow readers and slow writers cost fast clients nothing: those are all
// served while the slow ones hang, and the slow ones end by their deadlines.
func TestSlowClientsBesideFastOnes(t *testing.T) {
	baseline(t)
	addr := scriptOrigin(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for {
			request, err := readWire(r)
			if err != nil {
				return
			}
			if strings.Contains(request, "/endless") {
				_, err = io.WriteString(c, headNone)
				for piece := strings.Repeat("x", 16<<10); err == nil; {
					_, err = io.WriteString(c, piece)
				}
				return
			}
			if _, err := io.WriteString(c, head5+"hello"); err != nil {
				return
			}
		}
	})
	g := startGateway(t, func(o *Options, p *Policy) {
		o.Limits.HeaderTimeout, o.Limits.WriteTimeout = 3*time.Second, 3*time.Second
		for i := range p.Routes {
			p.Routes[i].BodyTimeout, p.Routes[i].Timeout = 3*time.Second, time.Minute
		}
	}, addr)
	const each = 20
	slow := []string{
		"GET /pub HTT", // in its head
		post("Content-Length: 100000\r\n", "hello"),                                            // in a body that is buffered
		"POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhello",              // in one that is streamed
		"POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", // in chunks
		"GET /stream/endless HTTP/1.1\r\nHost: a\r\n\r\n",                                      // reads nothing
	}
	for _, request := range slow {
		for range each {
			c := dial(t, g.addr)
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "they are all there", func() bool { return g.Connections() == each*len(slow) })

	var fast sync.WaitGroup
	for range 8 {
		fast.Go(func() {
			c := dial(t, g.addr)
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			defer c.Close()
			r := bufio.NewReader(c)
			for i := range 100 {
				request := get("")
				if i%2 == 0 {
					request = "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
				}
				if _, err := io.WriteString(c, request); err != nil {
					t.Error(err)
					return
				}
				if got, err := tryReply(r, "GET"); err != nil || got.StatusCode != 200 {
					t.Errorf("a fast client was answered with %v, %v", got.Response, err)
					return
				}
			}
		})
	}
	fast.Wait()
	eventually(t, "the slow ones are gone", func() bool { return g.Connections() == 0 })
}
