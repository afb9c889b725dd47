//go:build linux

package target

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
)

// A reserved address is nobody's by chance, and whoever it is meant for gets it,
// also again.
func TestAReservedAddressIsKept(t *testing.T) {
	addr, release, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	by := func(reuse int) (net.Listener, error) {
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, reuse)
			}), err)
		}}
		return lc.Listen(context.Background(), "tcp", addr)
	}
	for range 2 {
		if l, err := by(0); err == nil {
			l.Close()
			t.Errorf("%s is given to whoever does not share addresses", addr)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("somebody answers at %s before anybody listens", addr)
		}
		l, err := by(1)
		if err != nil {
			t.Fatalf("whom it is meant for does not get it: %v", err)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
	release()
	l, err := by(0)
	if err != nil {
		t.Fatalf("once released, it is still kept: %v", err)
	}
	l.Close()
}
