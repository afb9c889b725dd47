package priority

import "strings"

// slotClass is one class's slots and its places to wait. The lock of Slots
// guards it.
type slotClass struct {
	share   float64
	used    int
	turn    float64
	waiting int
	tenants map[string]*line
	first   *line // of a ring of tenants that wait; its turn is next

	served, refused uint64
}

// line is the requests of one tenant that wait, oldest first.
type line struct {
	class      *slotClass
	tenant     string
	waiters    []*waiter
	prev, next *line
}

// waiter is one request that waits.
type waiter struct {
	line *line
	done chan struct{} // closed when waiting is over
	slot Slot          // held if it got one
	out  bool          // it is in no line any more
}

// enter puts one more request of a tenant in its line, and returns nil where
// there is no place for it.
func (c *slotClass) enter(tenant string, places int) *waiter {
	l := c.tenants[tenant]
	if c.waiting >= places {
		longest := c.longest()
		if longest == nil || l != nil && len(l.waiters)+1 >= len(longest.waiters) || l == nil && len(longest.waiters) < 2 {
			return nil
		}
		w := longest.waiters[len(longest.waiters)-1]
		c.leave(w)
		close(w.done)
	}
	if l == nil {
		l = &line{class: c, tenant: strings.Clone(tenant)} // the caller's is reused
		if c.tenants == nil {
			c.tenants = map[string]*line{}
		}
		c.tenants[l.tenant] = l
		c.link(l)
	}
	w := &waiter{line: l, done: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	c.waiting++
	return w
}

// next takes the oldest waiter of the tenant whose turn it is.
func (c *slotClass) next() *waiter {
	l := c.first
	c.first = l.next
	w := l.waiters[0]
	c.leave(w)
	return w
}

// leave takes a waiter out of its line.
func (c *slotClass) leave(w *waiter) {
	l := w.line
	for i, other := range l.waiters {
		if other == w {
			l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
			break
		}
	}
	w.out = true
	c.waiting--
	if len(l.waiters) == 0 {
		delete(c.tenants, l.tenant)
		c.unlink(l)
	}
}

// link puts a line at the end of the ring.
func (c *slotClass) link(l *line) {
	if c.first == nil {
		c.first, l.prev, l.next = l, l, l
		return
	}
	l.next, l.prev = c.first, c.first.prev
	l.prev.next, l.next.prev = l, l
}

func (c *slotClass) unlink(l *line) {
	if l.next == l {
		c.first = nil
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	if c.first == l {
		c.first = l.next
	}
}

// longest is the line with the most waiters.
func (c *slotClass) longest() *line {
	var longest *line
	for l, i := c.first, 0; i < len(c.tenants); l, i = l.next, i+1 {
		if longest == nil || len(l.waiters) > len(longest.waiters) {
			longest = l
		}
	}
	return longest
}

// position is how many of the class are served until one more request of a
// tenant has been.
func (c *slotClass) position(tenant string) int {
	turns, lines := 1, len(c.tenants)
	if l := c.tenants[tenant]; l != nil {
		turns += len(l.waiters)
	} else {
		lines++
	}
	return min(turns*lines, c.waiting+1)
}

// absorb takes over the slots and the waiters of a class that is gone.
func (c *slotClass) absorb(gone *slotClass) {
	c.used += gone.used
	c.served += gone.served
	c.refused += gone.refused
	for gone.waiting > 0 {
		w := gone.next()
		n := c.enter(w.line.tenant, c.waiting+1)
		l := n.line
		w.line, w.out = l, false
		l.waiters[len(l.waiters)-1] = w
	}
}
