//go:build unix && !linux

package testservice

import "syscall"

// apart puts a program in a process group of its own, so that all of it can be
// ended. Only Linux ties it to the test's life.
func apart(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: c}
}
