package shedding

import (
	"fmt"
	"testing"
	"time"

	"sluice/admission"
)

func withTickets(t testing.TB, secrets ...[]byte) func(*Options) {
	t.Helper()
	tickets, err := NewTickets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Tickets = tickets }
}

var secret = []byte("0123456789abcdef")

// returns reports whether a request was let in as one that came back.
func (a *answer) returns() bool { return a.permit.Ref != nil && a.permit.Amount&permitBack != 0 }

// Property 5: waiting beats hammering; the promise stays what it was.
func TestComingBackEarlyNeitherSpendsNorImprovesAPromise(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	h := header{"Idempotency-Key": "k"}
	now := strain(t, g, start, 90)
	first := refused(t, g, now, "t", 2, h)
	due := first.d.Promise.NotBefore
	if !first.d.Promise.Made() || due.Sub(now) < time.Second {
		t.Fatalf("promise %+v", first.d.Promise)
	}
	for at := now; at.Before(due); at = at.Add(due.Sub(now) / 50) {
		a := reserve(g, at, "t", 2, h)
		if !a.refusal.Is() {
			t.Fatalf("let in %v before its time", due.Sub(at))
		}
		if a.d.Promise.ID != first.d.Promise.ID || !a.d.Promise.NotBefore.Equal(due) {
			t.Fatalf("the promise changed from %+v to %+v", first.d.Promise, a.d.Promise)
		}
		if a.refusal.RetryAfter > max(time.Second, due.Sub(at)) {
			t.Fatalf("told to wait %v, %v before its time", a.refusal.RetryAfter, due.Sub(at))
		}
	}
	g.queues[0].classes[2].back.Store(1)
	if a := reserve(g, due, "t", 2, h); !a.returns() {
		t.Errorf("refused with %v when its time had come", a.refusal.Reason)
	}
}

func TestOnePromiseOneAdmission(t *testing.T) {
	g := newTestGate(t, QueueOptions{}, withTickets(t, secret))
	now := strain(t, g, start, 90)
	first := refused(t, g, now, "t", 2, nil)
	h := header{TicketHeader: first.ticket()}
	at := first.d.Promise.NotBefore
	g.queues[0].classes[2].back.Store(1)
	a := reserve(g, at, "t", 2, h)
	if !a.returns() {
		t.Fatalf("not let in: %v", a.refusal.Reason)
	}
	for range 50 {
		if b := reserve(g, at, "t", 2, h); b.returns() {
			t.Fatal("one ticket, two admissions")
		}
	}
	g.GiveBack(at, a.permit)
	if b := reserve(g, at, "t", 2, h); !b.returns() {
		t.Error("a ticket that was given back is not good any more")
	}
}

func TestPromiseHoldsFromItsTimeUntilItLapses(t *testing.T) {
	for _, late := range []time.Duration{0, minGrace*time.Second - time.Second} {
		g := newTestGate(t, QueueOptions{}, withTickets(t, secret))
		now := strain(t, g, start, 90)
		first := refused(t, g, now, "t", 2, nil)
		g.queues[0].classes[2].back.Store(1)
		if a := reserve(g, first.d.Promise.NotBefore.Add(late), "t", 2, header{TicketHeader: first.ticket()}); !a.returns() {
			t.Errorf("refused %v after its time: %v", late, a.refusal.Reason)
		}
	}
	g := newTestGate(t, QueueOptions{}, withTickets(t, secret))
	first := refused(t, g, strain(t, g, start, 90), "t", 2, nil)
	for range 20 {
		if a := reserve(g, first.d.Promise.Lapse, "t", 2, header{TicketHeader: first.ticket()}); a.returns() {
			t.Fatal("let in on a lapsed promise")
		}
	}
}

func TestTicketFitsNobodyElse(t *testing.T) {
	one, two := withTickets(t, secret), withTickets(t, []byte("another secret, as long"))
	g := newTestGate(t, QueueOptions{}, one)
	now := strain(t, g, start, 90)
	first := refused(t, g, now, "tenant", 2, nil)
	ticket := first.ticket()
	at := first.d.Promise.NotBefore
	read := func(g *Gate, tenant string, class admission.Class, route *admission.Route, ticket string) bool {
		r := admission.Request{Tenant: tenant, Class: class, Route: route, Header: header{TicketHeader: ticket}}
		var p admission.Promise
		return g.recall(at, &r, 1, &p) == admission.Due
	}
	other := admission.Route{ID: "other", Queue: "q"}
	if !read(g, "tenant", 2, &testRoute, ticket) {
		t.Fatal("the ticket does not fit its own request")
	}
	if read(g, "tenan", 2, &testRoute, ticket) || read(g, "tenant2", 2, &testRoute, ticket) {
		t.Error("the ticket fits another tenant")
	}
	if read(g, "tenant", 1, &testRoute, ticket) {
		t.Error("the ticket fits another class")
	}
	if read(g, "tenant", 2, &other, ticket) {
		t.Error("the ticket fits another route")
	}
	if read(g, "tenantw", 2, &admission.Route{ID: "ork"}, ticket) {
		t.Error("the ticket fits where tenant and route run into each other")
	}
	if read(newTestGate(t, QueueOptions{}, two), "tenant", 2, &testRoute, ticket) {
		t.Error("the ticket fits a gateway with another secret")
	}
	if !read(newTestGate(t, QueueOptions{}, withTickets(t, secret)), "tenant", 2, &testRoute, ticket) {
		t.Error("the ticket does not fit a replica with the same secret")
	}
	for i := range ticket {
		bent := []byte(ticket)
		bent[i] ^= 1
		if read(g, "tenant", 2, &testRoute, string(bent)) {
			t.Errorf("the ticket is good with character %d changed", i)
		}
	}
	for _, bad := range []string{"", ticket[1:], ticket + "A", ticket[:len(ticket)-1] + "="} {
		if read(g, "tenant", 2, &testRoute, bad) {
			t.Errorf("ticket %q is good", bad)
		}
	}
}

func TestSecretsRotate(t *testing.T) {
	fresh := []byte("the next secret, 2026")
	old := newTestGate(t, QueueOptions{}, withTickets(t, secret))
	both := newTestGate(t, QueueOptions{}, withTickets(t, fresh, secret))
	after := newTestGate(t, QueueOptions{}, withTickets(t, fresh))
	now := strain(t, old, start, 90)
	ticket := refused(t, old, now, "t", 2, nil).ticket()
	r := admission.Request{Tenant: "t", Class: 2, Route: &testRoute}
	if _, ok := both.tickets.read(ticket, &r); !ok {
		t.Error("a ticket signed with the second secret is not accepted")
	}
	if _, ok := after.tickets.read(ticket, &r); ok {
		t.Error("a ticket signed with a dropped secret is accepted")
	}
	p := admission.Promise{NotBefore: now, Lapse: now.Add(time.Minute), ID: 1}
	if _, ok := after.tickets.read(string(both.tickets.AppendTicket(nil, &r, &p)), &r); !ok {
		t.Error("the first secret does not sign")
	}
	if _, err := NewTickets([]byte("short")); err == nil {
		t.Error("a short secret is accepted")
	}
}

// Property 10: a secret that was made up is kept across reloads.
func TestMadeUpSecretSurvivesReload(t *testing.T) {
	old := newTestGate(t, QueueOptions{}, withTickets(t))
	ticket := refused(t, old, strain(t, old, start, 90), "t", 2, nil).ticket()
	for name, c := range map[string]struct {
		secrets [][]byte
		want    bool
	}{"made up again": {nil, true}, "given now": {[][]byte{secret}, false}} {
		o := Options{Classes: 3}
		withTickets(t, c.secrets...)(&o)
		next, err := New(o, start, old)
		if err != nil {
			t.Fatal(err)
		}
		r := admission.Request{Tenant: "t", Class: 2, Route: &testRoute}
		if _, ok := next.tickets.read(ticket, &r); ok != c.want {
			t.Errorf("%s: the ticket is good: %v, want %v", name, ok, c.want)
		}
	}
}

func TestSigningAllocatesNothing(t *testing.T) {
	tickets, err := NewTickets(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := admission.Request{Tenant: "t", Class: 2, Route: &testRoute}
	p := admission.Promise{NotBefore: start, Lapse: start.Add(time.Minute), ID: 1}
	buf := make([]byte, 0, 64)
	ticket := string(tickets.AppendTicket(buf, &r, &p))
	if n := testing.AllocsPerRun(200, func() {
		tickets.AppendTicket(buf, &r, &p)
		tickets.read(ticket, &r)
	}); n != 0 && !raceDetector {
		t.Errorf("signing and reading a ticket allocates %v times", n)
	}
}

func TestMemoryIsBoundedAndForgetsNothingEarly(t *testing.T) {
	m := newMemory(1024, 7)
	kept := []uint64{}
	for id := uint64(1); id <= 5000; id++ {
		if m.put(span{id: id, value: id * 3, until: 100}, 50, false) {
			kept = append(kept, id)
		}
	}
	if len(kept) > 1024 || len(kept) < 900 {
		t.Errorf("%d entries were taken, want up to 1024", len(kept))
	}
	for _, id := range kept {
		if e, ok := m.get(id, 99); !ok || e.value != id*3 {
			t.Fatalf("entry %d was forgotten", id)
		}
		if m.put(span{id: id, until: 200}, 99, false) {
			t.Fatalf("entry %d was taken twice", id)
		}
		if _, ok := m.get(id, 100); ok {
			t.Fatalf("entry %d did not lapse", id)
		}
	}
	if !m.put(span{id: 9999, until: 300}, 100, false) || m.empty(299) || !m.empty(300) {
		t.Error("lapsed entries are in the way, or the last lapse is wrong")
	}
	m.remove(9999)
	if _, ok := m.get(9999, 101); ok {
		t.Error("a removed entry is there")
	}
	if !m.put(span{id: 5, value: 1, until: 300}, 100, true) || !m.put(span{id: 5, value: 2, until: 300}, 100, true) {
		t.Error("an entry cannot be replaced")
	}
	if e, _ := m.get(5, 101); e.value != 2 {
		t.Errorf("value is %d after replacing it with 2", e.value)
	}
}

func TestFullMemoryMakesNoPromiseItCannotKeep(t *testing.T) {
	g := newTestGate(t, QueueOptions{}, func(o *Options) { o.Promises = 128 })
	now := strain(t, g, start, 110)
	made := 0
	for i := range 2000 {
		a := reserve(g, now, fmt.Sprint("t", i), 2, header{"Idempotency-Key": fmt.Sprint(i)})
		if a.d.Promise.Made() {
			made++
		}
		if a.refusal.Is() && a.refusal.RetryAfter < time.Second {
			t.Fatal("a refusal without promise has no Retry-After")
		}
	}
	if made == 0 || made > 128 {
		t.Errorf("%d promises were made with room for 128", made)
	}
}

func FuzzTicket(f *testing.F) {
	tickets, err := NewTickets(secret)
	if err != nil {
		f.Fatal(err)
	}
	r := admission.Request{Tenant: "t", Class: 2, Route: &testRoute}
	p := admission.Promise{NotBefore: start, Lapse: start.Add(time.Minute), ID: 1}
	good := string(tickets.AppendTicket(nil, &r, &p))
	f.Add(good)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := tickets.read(s, &r); ok && s != good {
			t.Fatalf("%q is accepted", s)
		}
	})
}

// A key is the same with quotes and without, as it is for records.
func TestPromiseIsKnownWithAndWithoutQuotes(t *testing.T) {
	for _, keys := range [][2]string{{"k", `"k"`}, {`"k"`, "k"}, {"k", "k"}, {`"k"`, `"k"`}, {`"`, `"`}} {
		g := newTestGate(t, QueueOptions{})
		now := strain(t, g, start, 80)
		a := refused(t, g, now, "t", 2, header{"Idempotency-Key": keys[0]})
		if b := reserve(g, a.d.Promise.NotBefore, "t", 2, header{"Idempotency-Key": keys[1]}); b.d.Standing != admission.Due {
			t.Errorf("promised to %s, and %s stands as %v", keys[0], keys[1], b.d.Standing)
		}
	}
}

// What clients see does not give the seed away: mixing can be undone, deriving can
// not.
func TestTicketsDoNotTellTheSeed(t *testing.T) {
	g := newTestGate(t, QueueOptions{})
	for n := range uint64(3) {
		id := g.newID()
		key := unmix(id) - (n + 1)
		if mix(key+n+1) != id || key != g.idKey {
			t.Fatalf("mixing was not undone: %x", key)
		}
		for _, guess := range []uint64{key, unmix(key), unmix(unmix(key))} {
			if guess == g.seed || mix(guess) == g.seed {
				t.Errorf("the seed %x can be told from the id %x", g.seed, id)
			}
		}
	}
	if g.idKey == g.drawKey || g.idKey == g.queues[0].drawKey {
		t.Error("ids tell what is drawn")
	}
}

// unmix undoes mix.
func unmix(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= 0x319642b2d24d8ec3 // the inverse of mix's second factor, modulo 2^64
	x ^= x>>27 ^ x>>54
	x *= 0x96de1b173f119089
	x ^= x>>30 ^ x>>60
	return x - 0x9e3779b97f4a7c15
}

func BenchmarkTicket(b *testing.B) {
	tickets, err := NewTickets(secret)
	if err != nil {
		b.Fatal(err)
	}
	r := admission.Request{Tenant: "tenant", Class: 2, Route: &testRoute}
	p := admission.Promise{NotBefore: start, Lapse: start.Add(time.Minute), ID: 1}
	buf := make([]byte, 0, 64)
	b.ReportAllocs()
	for range b.N {
		tickets.AppendTicket(buf, &r, &p)
	}
}
