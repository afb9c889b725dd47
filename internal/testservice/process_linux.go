package testservice

import "syscall"

// apart puts a program in a process group of its own, so that all of it can be
// ended, and makes it end even if the test is killed.
func apart(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: c}
}
