// Package hugepage gives large tables memory in huge pages. Who looks at one place
// of a large table after the other, in no order, waits not only for the place but
// for the page table, too, which is in no cache either: for a table of 128 MiB, a
// tenth of a decision. 512 times fewer pages are at hand.
package hugepage

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Size is that of a huge page on amd64, and on arm64 where pages have 4 KiB.
const Size = 2 << 20

var inUse atomic.Int64

// InUse returns how many bytes [Make] has outside the heap, where neither GOMEMLIMIT
// nor the runtime's statistics count them.
func InUse() int64 { return inUse.Load() }

// Memory is what elements are in that are not on the heap. It is given back once
// nobody holds it: whoever holds an element has to hold it, too. nil is the heap.
type Memory struct {
	mapping mapping
	cleanup runtime.Cleanup
}

// mapping is so many bytes outside the heap, in whole huge pages.
type mapping struct {
	at    unsafe.Pointer
	bytes uintptr
}

func (m mapping) size() uintptr { return (m.bytes + Size - 1) &^ (Size - 1) }

// Make returns n zero elements, and what they are in. What is smaller than a huge page
// is on the heap. What is larger is outside, if the system gives it: T must hold no
// pointer, since the garbage collector does not look there. Where huge pages are
// switched off, they are pages like others.
func Make[T any](n int) (elements []T, in *Memory) {
	bytes := uintptr(n) * unsafe.Sizeof(*new(T))
	if bytes < Size {
		return make([]T, n), nil
	}
	m := mapping{bytes: bytes}
	if !m.make() {
		return make([]T, n), nil
	}
	inUse.Add(int64(bytes))
	in = &Memory{mapping: m}
	in.cleanup = runtime.AddCleanup(in, mapping.free, m)
	return unsafe.Slice((*T)(m.at), n), in
}

// Free gives memory back at once. It is called once, when nobody holds an element.
func (m *Memory) Free() {
	if m != nil {
		m.cleanup.Stop()
		m.mapping.free()
	}
}

func (m mapping) free() {
	inUse.Add(-int64(m.bytes))
	unmap(m.at, m.size())
}
