//go:build unix

package idempotency

import (
	"errors"
	"os"
	"syscall"
)

// lockFile makes sure that no other process uses the journal until the file is
// closed or this process ends, however it does.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another process uses it; give each gateway its own")
		}
		return nil, err
	}
	return f, nil
}
