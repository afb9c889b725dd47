package testredis

import "syscall"

// endWithTest makes a server end even if the test is killed.
func endWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
