package hugepage

import (
	"testing"
	"unsafe"
)

type line [8]uint64

const perPage = Size / int(unsafe.Sizeof(line{}))

// Small tables are the garbage collector's.
func TestSmall(t *testing.T) {
	for _, n := range []int{0, 1, perPage - 1} {
		before := InUse()
		lines, in := Make[line](n)
		if len(lines) != n || in != nil || InUse() != before {
			t.Errorf("%d elements of %d, on the heap: %t, %d bytes outside the heap", len(lines), n, in == nil, InUse()-before)
		}
	}
}
