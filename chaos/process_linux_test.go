package chaos

import "syscall"

// endWithTest makes a gateway end even if the test is killed, also while it is
// stopped.
func endWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
