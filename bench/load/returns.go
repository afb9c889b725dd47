package load

import (
	"container/heap"
	"sync"
	"time"
)

// returns holds the requests of clients that will come back, by the time at
// which they do.
type returns struct {
	mu   sync.Mutex
	heap returnHeap
}

func (r *returns) add(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heap.Push(&r.heap, q)
}

// peek is when the next client comes back; false when none will.
func (r *returns) peek() (at time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.heap) == 0 {
		return 0, false
	}
	return r.heap[0].intended, true
}

func (r *returns) pop() request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return heap.Pop(&r.heap).(request)
}

func (r *returns) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.heap)
}

type returnHeap []request

func (h returnHeap) Len() int           { return len(h) }
func (h returnHeap) Less(i, j int) bool { return h[i].intended < h[j].intended }
func (h returnHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *returnHeap) Push(x any)        { *h = append(*h, x.(request)) }
func (h *returnHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
