//go:build !linux

package hugepage

import "unsafe"

func mapped(int) (unsafe.Pointer, func()) { return nil, nil }
