package admin

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
)

// The sketch estimates who is busiest in fixed space: the space-saving
// algorithm (Metwally, Agrawal and El Abbadi, 2005) in sets of a few ways, so
// that a touch looks at one set only. A newcomer to a full set takes the place
// of its least, and inherits its count as possible error.
type sketch [sketchSets][sketchWays]way

const (
	sketchSets = 64
	sketchWays = 4
)

// A way fills one cache line.
type way struct {
	hash       uint64
	count, err uint32
	n          uint8 // length of name; 0 with count 0: free
	name       [nameSize]byte
}

const nameSize = 47

func (s *sketch) touch(hash uint64, name string) {
	set := &s[hash>>32%sketchSets]
	least := &set[0]
	for i := range set {
		w := &set[i]
		if w.hash == hash && w.count > 0 {
			w.count++
			return
		}
		if w.count < least.count {
			least = w
		}
	}
	least.hash = hash
	least.err = least.count
	least.count++
	if len(name) > nameSize {
		least.n = uint8(putShort(&least.name, name))
		return
	}
	least.n = uint8(copy(least.name[:], name))
}

// putShort keeps long names apart by a digest at their end.
func putShort(to *[nameSize]byte, name string) int {
	h := fnv.New32a()
	for i := range len(name) {
		h.Write([]byte{name[i]})
	}
	return copy(to[:], fmt.Sprintf("%s~%08x", name[:nameSize-9], h.Sum32()))
}

func shortName(name string) string {
	if len(name) <= nameSize {
		return string(append([]byte(nil), name...))
	}
	var b [nameSize]byte
	return string(b[:putShort(&b, name)])
}

type sketched struct {
	hash  uint64
	name  string
	count uint64 // certainly this tenant's
}

// mergeSketches adds the stripes' sketches up, busiest first, and lets them
// fade by half. Requests without a tenant are left out of the ranking.
func mergeSketches(stripes []*stripe) (ranked []sketched, total uint64) {
	merged := make(map[uint64]*sketched)
	for _, st := range stripes {
		st.mu.Lock()
		for i := range st.sketch {
			for j := range st.sketch[i] {
				w := &st.sketch[i][j]
				if w.count == 0 {
					continue
				}
				certain := uint64(w.count - w.err)
				total += certain
				if m := merged[w.hash]; m != nil {
					m.count += certain
				} else if w.n > 0 {
					merged[w.hash] = &sketched{w.hash, string(w.name[:w.n]), certain}
				}
				w.count, w.err = w.count/2, w.err/2
			}
		}
		st.mu.Unlock()
	}
	for _, m := range merged {
		if m.count > 0 {
			ranked = append(ranked, *m)
		}
	}
	slices.SortFunc(ranked, func(a, b sketched) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name))
	})
	return ranked, total
}
