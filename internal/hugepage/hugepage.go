// Package hugepage gives large tables memory in huge pages. Who looks at one place
// of a large table after the other, in no order, waits not only for the place but
// for the page table, too, which is in no cache either: for a table of 128 MiB, a
// tenth of a decision. 512 times fewer pages are at hand.
package hugepage

import (
	"sync/atomic"
	"unsafe"
)

// Size is that of a huge page, of most: on amd64, and where pages have 4 KiB on arm64.
const Size = 2 << 20

var inUse atomic.Int64

// InUse returns how many bytes [Make] has outside the heap, where neither GOMEMLIMIT
// nor the runtime's statistics count them.
func InUse() int64 { return inUse.Load() }

// Make returns n zero elements. What is smaller than a huge page is on the heap, and
// free is nil. What is larger is outside, if the system gives it: T must hold no pointer,
// since the garbage collector does not look there, and free must be called once nobody
// holds an element. Where huge pages are switched off, they are pages like others.
func Make[T any](n int) (elements []T, free func()) {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	if bytes < Size {
		return make([]T, n), nil
	}
	memory, unmap := mapped(bytes)
	if memory == nil {
		return make([]T, n), nil
	}
	inUse.Add(int64(bytes))
	return unsafe.Slice((*T)(memory), n), func() {
		inUse.Add(-int64(bytes))
		unmap()
	}
}
