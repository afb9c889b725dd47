package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapped returns zeroed memory that begins with a huge page, and what gives it back;
// nil if there is none.
func mapped(bytes int) (memory unsafe.Pointer, unmap func()) {
	size := (uintptr(bytes) + Size - 1) &^ (Size - 1)
	all, err := unix.MmapPtr(-1, 0, nil, size+Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil
	}
	before := -uintptr(all) % Size
	memory = unsafe.Add(all, before)
	give(all, before)
	give(unsafe.Add(memory, size), Size-before)
	// Where this is refused, there are no huge pages.
	_ = unix.Madvise(unsafe.Slice((*byte)(memory), size), unix.MADV_HUGEPAGE)
	return memory, func() { give(memory, size) }
}

func give(memory unsafe.Pointer, size uintptr) {
	if size == 0 {
		return
	}
	if err := unix.MunmapPtr(memory, size); err != nil {
		panic("hugepage: " + err.Error()) // not ours: nothing may go on as if it were
	}
}
