package target

import (
	"fmt"
	"os"
	"syscall"
)

// reserve finds a free address of the loopback interface and keeps it: until
// release, the system gives its port to nobody who asks for any port, whether to
// listen or to connect from. A program that asks for this very address and sets
// SO_REUSEADDR, as Go's and Redis' listeners do, gets it, and gets it again after
// a restart. While nobody listens, connections are refused.
func reserve() (addr string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("target: %w", os.NewSyscallError("socket", err))
	}
	release = func() { _ = syscall.Close(fd) }
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", nil, fmt.Errorf("target: %w", os.NewSyscallError("setsockopt", err))
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", nil, fmt.Errorf("target: %w", os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", nil, fmt.Errorf("target: %w", os.NewSyscallError("getsockname", err))
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), release, nil
}
