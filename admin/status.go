package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/admission"
)

// Gateway is what the listener asks of the gateway. All methods are safe for
// concurrent use and return quickly, Reload apart.
type Gateway interface {
	// Status describes the gateway as it is now.
	Status() GatewayStatus

	// Ready returns nil where the gateway takes requests, and otherwise why it
	// does not: it drains, or has no valid configuration. What it depends on
	// being away is no reason.
	Ready() error

	// Reload loads the configuration again. An error means that nothing has
	// changed; if the error, or one it wraps, has a method Problems() []string,
	// each is shown. Reload records itself with [Metrics.ConfigLoaded].
	Reload(ctx context.Context, trigger string) (ReloadReport, error)

	// Drain begins or ends a drain, and may be told the same twice. Draining, the
	// gateway is not ready, and after the time that the configuration gives load
	// balancers it refuses what comes. An error means that the drain cannot be
	// ended: the gateway stops.
	Drain(on bool) error
}

// TriggerAdmin is the trigger that the listener gives to [Gateway.Reload].
const TriggerAdmin = "admin"

// ReloadReport says what a reload changed.
type ReloadReport struct {
	Hash    string   `json:"hash"`    // of the configuration now running
	Changed []string `json:"changed"` // paths in the configuration; none: it was the same
	// What became of the tenants' buckets.
	BucketsKept     int `json:"buckets_kept"`
	BucketsRescaled int `json:"buckets_rescaled"`
	// RestartPending are changed settings that take effect at the next start.
	RestartPending []string `json:"restart_pending"`
	// The candidate that is asked now, and what was wrong with the file where it
	// is the one before; "" without one.
	CandidateHash  string `json:"candidate_hash,omitempty"`
	CandidateError string `json:"candidate_error,omitempty"`
}

// GatewayStatus is what the gateway says of itself.
type GatewayStatus struct {
	Version   string       `json:"version"`
	Started   time.Time    `json:"started"`
	Mode      string       `json:"mode"` // enforce, shadow, or partly shadow
	Draining  bool         `json:"draining"`
	Refusing  bool         `json:"refusing"` // what comes, since balancers have had their time
	Config    ConfigStatus `json:"config"`
	Listeners []Listener   `json:"listeners"`
	Origin    OriginStatus `json:"origin"`
	// Candidate is nil where there is none. Its counts are filled in here.
	Candidate *CandidateStatus `json:"candidate,omitempty"`
}

// ConfigStatus describes the running configuration.
type ConfigStatus struct {
	Path           string    `json:"path"` // "": the embedded defaults
	Hash           string    `json:"hash"`
	Loaded         time.Time `json:"loaded"`
	ReloadError    string    `json:"reload_error,omitempty"` // of the latest attempt; "" where it succeeded
	RestartPending []string  `json:"restart_pending"`
}

// Listener is an address the gateway listens on.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// OriginStatus describes the origin. URL holds no credentials.
type OriginStatus struct {
	URL       string          `json:"url"`
	Addresses []OriginAddress `json:"addresses"`
}

// OriginAddress is one address of the origin.
type OriginAddress struct {
	Address   string `json:"address"`
	Healthy   bool   `json:"healthy"`
	InFlight  int    `json:"in_flight"`
	LastError string `json:"last_error,omitempty"`
}

// Section is another part's share of the status and the dashboard.
type Section struct {
	Name string // lower case, as the key in the JSON
	// Value returns what is shown; it is marshalled to JSON at once. nil is
	// left out.
	Value func() any
	// Series, if not nil, returns the values to keep history of, by name:
	// the section's, what is measured, and the measure, as in
	// queues/orders/wait_seconds. What is left out is not known then.
	Series func() map[string]float64
}

// Status is the whole status: the gateway's own, and what was counted.
type Status struct {
	GatewayStatus
	Now         time.Time      `json:"now"`
	Ready       string         `json:"not_ready,omitempty"` // why not; "" where it is
	Totals      Totals         `json:"totals"`
	Classes     []ClassStatus  `json:"classes"`
	Routes      []RouteStatus  `json:"routes"`
	Tenants     []TenantStatus `json:"tenants"`
	DecisionLog *LogCounts     `json:"decision_log,omitempty"` // nil where there is none
	Reloads     []ReloadRecord `json:"reloads"`
	Sections    map[string]any `json:"sections,omitempty"`
}

// Totals are counts since the start. Received equals InFlight plus the sum of
// Verdicts; Verdicts["refuse"] equals the sum of Refused.
type Totals struct {
	Received uint64            `json:"received"`
	InFlight uint64            `json:"in_flight"`
	Verdicts map[string]uint64 `json:"verdicts"`
	Refused  map[string]uint64 `json:"refused"` // by reason
	Shadow   map[string]uint64 `json:"shadow"`  // let pass; would have been refused, by reason
	Failed   map[string]uint64 `json:"failed"`  // admitted, then failed, by reason
	Outcomes map[string]uint64 `json:"outcomes"`
}

// Counts are decisions since the start, and per second over the last ten.
type Counts struct {
	Admit  uint64 `json:"admit"`
	Replay uint64 `json:"replay"`
	Refuse uint64 `json:"refuse"`
	// Per second, lately.
	AdmitRate  float64 `json:"admit_rate"`
	ReplayRate float64 `json:"replay_rate"`
	RefuseRate float64 `json:"refuse_rate"`
}

// ClassStatus is one class, in the policy's order.
type ClassStatus struct {
	Class string `json:"class"`
	Counts
}

// RouteStatus is one route, in the policy's order, or "unmatched".
type RouteStatus struct {
	Route   string            `json:"route"`
	Mode    string            `json:"mode"`
	LastHit *time.Time        `json:"last_hit"`
	Refused map[string]uint64 `json:"refused,omitempty"`
	Shadow  map[string]uint64 `json:"shadow,omitempty"`
	Counts
}

// TenantStatus is one of the tenants that are counted apart.
type TenantStatus struct {
	Tenant string  `json:"tenant"`
	Share  float64 `json:"share"` // of recent decisions, estimated; 0 where not among the busiest
	Counts
}

// sum adds the cells up.
func (sn *snapshot) sum() Totals {
	t := Totals{
		Received: sn.begun, InFlight: sn.begun - sn.ended(),
		Verdicts: map[string]uint64{}, Refused: map[string]uint64{}, Shadow: map[string]uint64{},
		Failed: map[string]uint64{}, Outcomes: map[string]uint64{},
	}
	for _, c := range sn.used() {
		for v, n := range c.verdicts {
			t.Verdicts[admission.Verdict(v).String()] += n
		}
		addReasons(t.Refused, &c.refused)
		addReasons(t.Shadow, &c.shadow)
		addReasons(t.Failed, &c.failures)
		for v := range c.duration {
			for o := range c.duration[v] {
				if n := c.duration[v][o].count(); n > 0 {
					t.Outcomes[admission.Outcome(o).String()] += n
				}
			}
		}
	}
	return t
}

func addReasons(to map[string]uint64, counts *[reasonCount]uint64) {
	for i, n := range counts {
		if n > 0 {
			to[admission.Reason(i).String()] += n
		}
	}
}

// fill sets everything of st that is counted here, as it is at now.
func (l *Live) fill(st *Status, now *sampled) {
	was := &decided{at: now.at}
	l.history.mu.Lock()
	if len(l.history.recent) > 0 {
		was = l.history.recent[0]
	}
	l.history.mu.Unlock()
	per := now.at.Sub(was.at).Seconds()
	st.Totals = now.totals
	st.Classes, st.Routes = l.byName(now, was, per)
	st.Tenants = l.byTenant(now, was, per)
	if l.metrics.log != nil {
		counts := l.metrics.log.Counts()
		st.DecisionLog = &counts
	}
	st.Reloads = l.metrics.Reloads()
	if st.Candidate != nil {
		st.Candidate.CandidateCounts = l.metrics.candidateCounts(now.snapshot)
	}
}

// take counts what there is now.
func (m *Metrics) take(now time.Time) *sampled {
	sn := m.snapshot()
	return &sampled{at: now, snapshot: sn, totals: sn.sum()}
}

// add counts what was counted until now, of which was until per seconds ago.
func (c *Counts) add(now, was [verdictCount]uint64, per float64) {
	c.Admit += now[admission.Admit]
	c.Replay += now[admission.Replay]
	c.Refuse += now[admission.Refuse]
	if per <= 0 {
		return
	}
	rate := func(v admission.Verdict) float64 {
		if was[v] > now[v] { // its place was given away meanwhile
			return 0
		}
		return float64(now[v]-was[v]) / per
	}
	c.AdmitRate += rate(admission.Admit)
	c.ReplayRate += rate(admission.Replay)
	c.RefuseRate += rate(admission.Refuse)
}

// byName lists the policy's classes and routes in its order, and after them
// those that are no longer in it but were counted.
func (l *Live) byName(now *sampled, was *decided, per float64) ([]ClassStatus, []RouteStatus) {
	v, _ := l.metrics.of(nil)
	var classes []ClassStatus
	var routes []RouteStatus
	class, route := map[string]int{}, map[string]int{}
	addClass := func(name string) int {
		if i, ok := class[name]; ok {
			return i
		}
		class[name] = len(classes)
		classes = append(classes, ClassStatus{Class: name})
		return len(classes) - 1
	}
	addRoute := func(name string, mode admission.Mode) int {
		if i, ok := route[name]; ok {
			return i
		}
		route[name] = len(routes)
		routes = append(routes, RouteStatus{Route: name, Mode: mode.String(), Refused: map[string]uint64{}, Shadow: map[string]uint64{}})
		return len(routes) - 1
	}
	for _, name := range v.Classes {
		addClass(name)
	}
	for _, r := range v.Routes {
		addRoute(r.ID, r.Mode)
	}
	for id, c := range now.used() {
		var before [verdictCount]uint64
		if id < len(was.verdicts) {
			before = was.verdicts[id]
		}
		name := now.names[id]
		classes[addClass(name.class)].add(c.verdicts, before, per)
		r := &routes[addRoute(name.route, admission.Enforce)]
		r.add(c.verdicts, before, per)
		addReasons(r.Refused, &c.refused)
		addReasons(r.Shadow, &c.shadow)
		if hit := time.Unix(0, c.lastHit).UTC(); r.LastHit == nil || hit.After(*r.LastHit) {
			r.LastHit = &hit
		}
	}
	return classes, routes
}

// byTenant lists the tenants counted apart, busiest first.
func (l *Live) byTenant(now *sampled, was *decided, per float64) []TenantStatus {
	share := map[string]float64{}
	for _, b := range l.metrics.tenants.rank(now.at, l.metrics.stripes) {
		share[b.Tenant] = b.Share
	}
	labels, counts := l.metrics.tenantCounts(now.snapshot)
	list := []TenantStatus{}
	for i, label := range labels {
		if counts[i] == (tenantCounts{}) {
			continue
		}
		t := TenantStatus{Tenant: label, Share: share[label]}
		t.add(counts[i], was.tenants[label], per)
		list = append(list, t)
	}
	total := func(t *TenantStatus) float64 { return t.AdmitRate + t.ReplayRate + t.RefuseRate }
	slices.SortStableFunc(list, func(a, b TenantStatus) int {
		return cmp.Or(cmp.Compare(total(&b), total(&a)), cmp.Compare(b.Admit+b.Refuse+b.Replay, a.Admit+a.Refuse+a.Replay), cmp.Compare(a.Tenant, b.Tenant))
	})
	return list
}
