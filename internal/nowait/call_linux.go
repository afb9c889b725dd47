//go:build linux && !race

package nowait

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, p []byte) (int, error) {
	if len(p) == 0 || len(p) > Short {
		return syscall.Read(int(fd), p)
	}
	return call(syscall.SYS_READ, fd, p)
}

func write(fd uintptr, p []byte) (int, error) {
	if len(p) > Short {
		return syscall.Write(int(fd), p)
	}
	return call(syscall.SYS_WRITE, fd, p)
}

func call(trap, fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	switch errno {
	case 0:
		return int(n), nil
	case syscall.EAGAIN:
		return 0, syscall.EAGAIN // a constant as an error: nothing is allocated
	default:
		return 0, errno
	}
}
