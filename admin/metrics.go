package admin

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admission"
)

// MetricsOptions configure [NewMetrics]. The zero value is usable.
type MetricsOptions struct {
	Version string // of the gateway; "" shows as "unknown"
	// Tenants that always have a label of their own.
	Tenants []string
	// TopTenants is how many of the busiest other tenants have one; 0 means
	// 20, less than 0 none.
	TopTenants int
	// Log, if not nil, has its records counted.
	Log *DecisionLog
	// Now is the clock by which the busiest tenants are reconsidered; nil
	// means time.Now.
	Now func() time.Time
}

// Metrics counts what the gateway does. It is an [admission.Observer] and a
// collector for Prometheus, safe for concurrent use. [NewMetrics] makes one.
//
// [Metrics.SetPolicy] comes before the first request under a policy, and
// [Metrics.Begin] when a request has been received: the requests begun and not
// yet observed are those in flight.
type Metrics struct {
	policies[[]int32] // prepared: cell ids by row and class
	names             cellNames
	spread            *spread
	stripes           []*stripe
	begun             *spreadCounter
	seed              maphash.Seed
	limits            limitNames
	tenants           tenants
	config            configState
	candidate         candidateState
	version           string
	log               *DecisionLog
	now               func() time.Time
	sources           sources
}

// NewMetrics returns metrics that have counted nothing.
func NewMetrics(o MetricsOptions) *Metrics {
	spread := newSpread()
	m := &Metrics{
		spread:  spread,
		stripes: make([]*stripe, spread.n),
		begun:   newSpreadCounter(spread),
		seed:    maphash.MakeSeed(),
		version: o.Version,
		log:     o.Log,
		now:     o.Now,
	}
	if m.version == "" {
		m.version = "unknown"
	}
	if m.now == nil {
		m.now = time.Now
	}
	m.tenants.init(m.seed, o.Tenants, o.TopTenants)
	for i := range m.stripes {
		m.stripes[i] = &stripe{tenants: make([]tenantCounts, m.tenants.slots())}
	}
	m.SetPolicy(&Policy{})
	return m
}

// SetPolicy tells what the indexes in events of p's routes mean. It must have
// returned before the first request runs under p. Counts go by the names of
// routes and classes, so a route that keeps its id keeps its counts.
func (m *Metrics) SetPolicy(p *Policy) {
	ids := make([]int32, 0, p.rows()*(len(p.Classes)+1))
	for row := range p.rows() {
		var r *admission.Route
		if row < len(p.Routes) {
			r = p.Routes[row]
		}
		for c := admission.NoClass; int(c) < len(p.Classes); c++ {
			ids = append(ids, m.names.id(routeName(r), p.className(c)))
		}
	}
	m.add(p, ids)
}

// Begin counts a request as received. One call of Observe ends it.
func (m *Metrics) Begin() { m.begun.inc() }

// Observe implements [admission.Observer]. It does not allocate, except where
// it meets a route and class, a limit or one of the first tenants for the
// first time.
func (m *Metrics) Observe(e *admission.Event) {
	r, d := e.Request, &e.Decision
	id, class := m.cellOf(r)
	verdict := min(int(d.Verdict), verdictCount-1)
	reason := min(int(d.Reason), reasonCount-1)
	outcome := min(int(e.Outcome), outcomeCount-1)
	limit, limited := m.limits.index(d.Limit.Name)
	hash := maphash.String(m.seed, r.Tenant)
	if m.tenants.roomOnSight() {
		m.tenants.addOnSight(hash, r.Tenant)
	}

	i := m.spread.get()
	st := m.stripes[*i]
	st.mu.Lock()
	slot := m.tenants.slot(hash)
	c := st.cellLocked(id)
	c.verdicts[verdict]++
	c.lastHit = max(c.lastHit, r.Received.UnixNano()+int64(e.Done))
	c.duration[verdict][outcome].add(requestBounds, e.Done)
	if d.Verdict == admission.Refuse {
		c.refused[reason]++
		if d.RetryAfter > 0 {
			st.retry[reason].add(retryBounds, d.RetryAfter)
		}
	}
	if d.Shadow != admission.None {
		c.shadow[min(int(d.Shadow), reasonCount-1)]++
	}
	if e.Failure != admission.None {
		c.failures[min(int(e.Failure), reasonCount-1)]++
	}
	if r.Second.Asked {
		if c.seconds == nil {
			c.seconds = new(seconds)
		}
		c.seconds.count(e, class)
	}
	if limited {
		st.limits[limit].count(d)
	}
	st.stagesLocked(e)
	st.tenants[slot][verdict]++
	st.sketch.touch(hash, r.Tenant)
	st.mu.Unlock()
	m.spread.put(i)
}

func (l *limitCounts) count(d *admission.Decision) {
	switch admission.TenantLimit {
	case d.Reason:
		l.refused++
	case d.Shadow:
		l.shadow++
	default:
		l.allowed++
	}
}

// stagesLocked adds what each stage took. A stage that was not reached is zero
// in the event, and not counted.
func (st *stripe) stagesLocked(e *admission.Event) {
	if e.Decided == 0 {
		return
	}
	st.overhead[stageDecide].add(overheadBounds, e.Decided)
	if e.Sent == 0 {
		if e.Outcome == admission.NotTried {
			st.overhead[stageAnswer].add(overheadBounds, e.Done-e.Decided)
		}
		return
	}
	st.overhead[stageSend].add(overheadBounds, e.Sent-e.Decided)
	if e.Outcome != admission.Answered || e.OriginAnswered == 0 {
		st.origin[0].add(requestBounds, e.Done-e.Sent)
		return
	}
	st.overhead[stageAnswer].add(overheadBounds, e.Done-e.OriginAnswered)
	code := e.Status / 100
	if code < 1 || code >= codeCount {
		code = 0
	}
	st.origin[code].add(requestBounds, e.OriginAnswered-e.Sent)
}

// cellOf finds the cell of r's route and class, and the name of the class.
func (m *Metrics) cellOf(r *admission.Request) (id int, class string) {
	v, found := m.of(r.Route)
	class = v.className(r.Class)
	if !found {
		return int(m.names.id(r.Route.ID, class)), class
	}
	c := int(r.Class) + 1
	if c < 0 || c > len(v.Classes) {
		c = 0
	}
	return int(v.prepared[v.row(r.Route)*(len(v.Classes)+1)+c]), class
}

// cellNames numbers the pairs of route and class ever seen.
type cellNames struct {
	mu  sync.Mutex
	ids map[cellName]int32
	all []cellName // by id
}

type cellName struct{ route, class string }

func (n *cellNames) id(route, class string) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := cellName{route, class}
	id, ok := n.ids[name]
	if !ok {
		if n.ids == nil {
			n.ids = make(map[cellName]int32)
		}
		id = int32(len(n.all))
		n.ids[name] = id
		n.all = append(n.all, name)
	}
	return id
}

func (n *cellNames) list() []cellName {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[:len(n.all):len(n.all)]
}

// limitNames numbers the limit policies seen, of which there are few.
type limitNames struct {
	mu    sync.Mutex
	known atomic.Pointer[[]string]
}

// index returns the index of the limit called name; ok is false for "".
func (l *limitNames) index(name string) (i int, ok bool) {
	if name == "" {
		return 0, false
	}
	known := l.list()
	for i, n := range known {
		if n == name {
			return i, true
		}
	}
	if len(known) == maxLimits {
		return maxLimits, true
	}
	return l.add(name), true
}

func (l *limitNames) add(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.list()
	for i, n := range known {
		if n == name {
			return i
		}
	}
	if len(known) == maxLimits {
		return maxLimits
	}
	// name may lie in memory of the transport
	grown := append(append([]string(nil), known...), string(append([]byte(nil), name...)))
	l.known.Store(&grown)
	return len(known)
}

func (l *limitNames) list() []string {
	if known := l.known.Load(); known != nil {
		return *known
	}
	return nil
}
