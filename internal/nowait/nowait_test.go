package nowait

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair returns the two ends of a connection on loopback.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

// What is written arrives, whatever the sizes: also where the kernel takes it in
// pieces, and where a call is too long to be short.
func TestArrives(t *testing.T) {
	for _, size := range []int{0, 1, 1000, Short, Short + 1, 8 << 20} {
		a, b := pair(t)
		from, to := Wrap(a), Wrap(b)
		sent := make([]byte, size)
		rand.Read(sent)
		wrote := make(chan error, 1)
		go func() {
			n, err := from.Write(sent)
			if err == nil && n != size {
				err = io.ErrShortWrite
			}
			wrote <- err
			from.Close()
		}()
		got, err := io.ReadAll(to)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err := <-wrote; err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%d bytes: %d others arrived", size, len(got))
		}
	}
}

func TestDeadlinesHold(t *testing.T) {
	a, _ := pair(t)
	c := Wrap(a)
	past := time.Unix(1, 0)
	if err := c.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read past its deadline: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write past its deadline: %v", err)
	}
	// A write that the other side does not take ends at the deadline, and says
	// how much was taken.
	if err := c.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 64<<20 {
		t.Errorf("a write that is not taken: %d bytes, %v", n, err)
	}
}

func TestEnds(t *testing.T) {
	a, b := pair(t)
	c := Wrap(a)
	b.Close()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a read after the other side has closed: %v, want EOF", err)
	}
	c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read after closing: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after closing: %v", err)
	}
}

func TestNoAllocation(t *testing.T) {
	a, b := pair(t)
	from, to := Wrap(a), Wrap(b)
	text, in := []byte("hello"), make([]byte, 16)
	n := testing.AllocsPerRun(200, func() {
		if _, err := from.Write(text); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Read(in); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("a write and a read allocate %v times", n)
	}
}
