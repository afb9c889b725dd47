//go:build !linux

package testredis

import "syscall"

// endWithTest does nothing here: only Linux ties processes together.
func endWithTest() *syscall.SysProcAttr { return nil }
