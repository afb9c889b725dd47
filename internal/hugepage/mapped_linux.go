package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// make maps zeros, and reports whether the system gave them.
func (m *mapping) make() bool {
	size := m.size()
	all, err := unix.MmapPtr(-1, 0, nil, size+Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	before := -uintptr(all) % Size
	m.at = unsafe.Add(all, before)
	unmap(all, before)
	unmap(unsafe.Add(m.at, size), Size-before)
	// Where this is refused, there are no huge pages.
	_ = unix.Madvise(unsafe.Slice((*byte)(m.at), size), unix.MADV_HUGEPAGE)
	return true
}

func unmap(at unsafe.Pointer, size uintptr) {
	if size == 0 {
		return
	}
	if err := unix.MunmapPtr(at, size); err != nil {
		panic("hugepage: " + err.Error()) // not ours: nothing may go on as if it were
	}
}
