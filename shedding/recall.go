package shedding

import (
	"time"

	"sluice/admission"
)

// recall says how r stands to the promise that was made to it, by its ticket or
// by its idempotency key, and fills in the promise where r is no newcomer.
func (g *Gate) recall(now time.Time, r *admission.Request, tenant uint64, p *admission.Promise) admission.Standing {
	if !g.promised(now, r, tenant, p) || !now.Before(p.Lapse) {
		return admission.Newcomer
	}
	if _, used := g.uses.get(p.ID, seconds(now)); used {
		return admission.Newcomer
	}
	if now.Before(p.NotBefore) {
		return admission.Early
	}
	return admission.Due
}

// promised finds the promise that was made to r, whether or not it still holds,
// and reports whether there is one.
func (g *Gate) promised(now time.Time, r *admission.Request, tenant uint64, p *admission.Promise) bool {
	if r.Header == nil {
		return false
	}
	if g.tickets != nil {
		if v, n := r.Header.Get(TicketHeader); n == 1 {
			if read, ok := g.tickets.read(v, r); ok {
				*p = read
				return true
			}
		}
	}
	if g.promises.empty(seconds(now)) {
		return false
	}
	key, ok := g.keyOf(r)
	if !ok {
		return false
	}
	e, ok := g.promises.get(g.keyID(key, r, tenant), seconds(now))
	if !ok {
		return false
	}
	*p = admission.Promise{NotBefore: time.Unix(int64(e.from), 0), Lapse: time.Unix(int64(e.until), 0), ID: e.value}
	if g.tickets != nil {
		p.Signer = g.tickets
	}
	return true
}

// remember keeps a promise by the request's idempotency key, if it has one.
func (g *Gate) remember(now time.Time, r *admission.Request, p *admission.Promise, tenant uint64) bool {
	if r.Header == nil {
		return false
	}
	key, ok := g.keyOf(r)
	if !ok {
		return false
	}
	return g.promises.put(span{id: g.keyID(key, r, tenant), value: p.ID, from: seconds(p.NotBefore), until: seconds(p.Lapse)}, seconds(now), true)
}

// keyOf returns the request's idempotency key, if it has one. Quoted or not, it is the
// same.
func (g *Gate) keyOf(r *admission.Request) (string, bool) {
	key, n := r.Header.Get(g.header)
	if len(key) > 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	return key, n == 1 && key != ""
}

// use marks a promise as used and reports whether it was not yet.
func (g *Gate) use(now time.Time, p *admission.Promise) bool {
	return g.uses.put(span{id: p.ID, until: seconds(p.Lapse)}, seconds(now), false)
}

// newID returns an id that no other promise has.
func (g *Gate) newID() uint64 {
	for {
		if id := mix(g.idKey + g.ids.Add(1)); id != 0 {
			return id
		}
	}
}

// keyID is what a promise to the request is found by.
func (g *Gate) keyID(key string, r *admission.Request, tenant uint64) uint64 {
	return admission.Hash(admission.Hash(tenant, r.Route.ID), key)
}

func seconds(t time.Time) uint32 { return uint32(t.Unix()) }
