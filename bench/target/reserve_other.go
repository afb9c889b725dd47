//go:build !linux

package target

import (
	"fmt"
	"net"
)

// reserve finds an address of the loopback interface that nobody listened on a
// moment ago: this system has no way to keep it.
func reserve() (addr string, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("target: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), func() {}, nil
}
