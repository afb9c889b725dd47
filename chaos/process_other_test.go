//go:build unix && !linux

package chaos

import "syscall"

func endWithTest() *syscall.SysProcAttr { return nil }
