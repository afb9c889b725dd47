package hugepage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// Large ones are whole, zero, begin with a huge page, and are gone once freed.
func TestLarge(t *testing.T) {
	for _, n := range []int{perPage, perPage + 1, 8 * perPage} {
		before := InUse()
		lines, in := Make[line](n)
		if len(lines) != n || in == nil {
			t.Fatalf("%d elements of %d, on the heap: %t", len(lines), n, in == nil)
		}
		at := uintptr(unsafe.Pointer(&lines[0]))
		if at%Size != 0 {
			t.Errorf("the table begins at %#x, within a huge page", at)
		}
		if got, want := InUse()-before, int64(n)*int64(unsafe.Sizeof(line{})); got != want {
			t.Errorf("%d bytes in use, want %d", got, want)
		}
		for i := range lines {
			if lines[i] != (line{}) {
				t.Fatalf("element %d of %d is %v", i, n, lines[i])
			}
			lines[i][7] = uint64(i)
		}
		for i := range lines {
			if lines[i][7] != uint64(i) {
				t.Fatalf("element %d of %d holds %d", i, n, lines[i][7])
			}
		}
		if !advised(t, at) {
			t.Error("huge pages were not asked for")
		}
		in.Free()
		if InUse() != before {
			t.Errorf("%d bytes are in use once freed", InUse()-before)
		}
	}
}

// advised reports whether the kernel was asked for huge pages in the mapping at an
// address.
func advised(t *testing.T, at uintptr) bool {
	t.Helper()
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Log("this kernel has no huge pages")
		return true
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for l := range strings.Lines(string(smaps)) {
		if from, to, ok := lineOf(l); ok {
			within = from <= at && at < to
		} else if flags, ok := strings.CutPrefix(l, "VmFlags:"); ok && within {
			return slices.Contains(strings.Fields(flags), "hg")
		}
	}
	t.Fatalf("no mapping has %#x", at)
	return false
}

// lineOf reads the first line about a mapping.
func lineOf(line string) (from, to uintptr, ok bool) {
	n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to)
	return from, to, n == 2
}
