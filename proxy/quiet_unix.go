package proxy

import "golang.org/x/sys/unix"

// nothingToRead reports whether a socket is open and has no bytes waiting.
func nothingToRead(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 0
}
