//go:build !linux

package hugepage

import "unsafe"

func (*mapping) make() bool { return false }

func unmap(unsafe.Pointer, uintptr) {}
