package explain

import (
	"fmt"
	"math"
	"strings"
	"time"

	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/admission/tenant"
	"sluice/config"
	"sluice/config/strict"
	"sluice/config/value"
	"sluice/gateway"
	"sluice/priority"
	"sluice/shedding"
)

// seen is the state of the gates before they are asked.
type seen struct {
	bucket ratelimit.State
	queue  *shedding.State     // nil: the route has none
	places *priority.SlotState // nil: nothing bounds them
	choice priority.Choice
	holds  []bool // by priority rule
}

func (t *teller) look() (s seen) {
	if t.p.Early && t.r.Tenant == "" || t.r.Route == nil {
		return s
	}
	s.choice = t.Classifier.Choose(t.r)
	for i := range t.cfg.Priority {
		s.holds = append(s.holds, t.Classifier.Holds(i, t.r))
	}
	if t.p.Early {
		return s
	}
	s.bucket = t.Buckets.Look(t.Clock(), t.r)
	if t.r.Route.Queue != "" {
		s.queue = &t.Queues.State(t.Clock())[t.r.Route.QueueAt]
	}
	if p, ok := t.Places(t.r.Route); ok {
		s.places = &p
	}
	return s
}

// route tells which route was found, and what kept those before it.
func (t *teller) route() {
	route, d := t.r.Route, &t.p.Decision
	var tried []Fact
	last := len(t.cfg.Routes)
	if route != nil {
		last = route.Index
	}
	elsewhere := 0
	for i := range t.cfg.Routes[:last] {
		c := &t.cfg.Routes[i]
		if !matches(string(c.Match.Path), t.r.Path) {
			elsewhere++
			continue
		}
		tried = append(tried, Fact{"not " + string(c.ID), fmt.Sprintf("it takes %s only (line %d)", methods(c.Match.Methods), t.cfg.Line(strict.Index("routes", i)+".match"))})
	}
	if elsewhere > 0 {
		tried = append(tried, Fact{"paths of other routes", fmt.Sprintf("%d before it do not match", elsewhere)})
	}
	switch {
	case route != nil:
		m := &t.cfg.Routes[route.Index].Match
		says := fmt.Sprintf("%s %s matches", methods(m.Methods), m.Path)
		t.step("route", route.ID, t.RoutePath(route), says, tried...)
	case d.Reason == admission.BadRequest:
		reading, other, _ := t.Classifier.Router().Explain(t.r.Method, t.r.Path)
		says := "the path can be read in too many ways"
		if reading != "" {
			says = fmt.Sprintf("the path can also be read as %s, which is %s", strict.Quote(reading), routeNamed(other))
		}
		t.step("route", refused, "routes", says)
	case d.Reason == admission.NoRoute:
		t.step("route", refused, "unmatched", "no route matches, and unmatched requests are refused", tried...)
	default:
		t.step("route", "unmatched", "unmatched", "no route matches, and unmatched requests are forwarded without a policy", tried...)
	}
}

func routeNamed(r *admission.Route) string {
	if r == nil {
		return "no route's"
	}
	return "the route " + r.ID + "'s"
}

func methods(list []config.Method) string {
	if len(list) == 0 {
		return "any method"
	}
	words := make([]string, len(list))
	for i, m := range list {
		words[i] = string(m)
	}
	return strings.Join(words, " or ")
}

func matches(pattern, path string) bool {
	p, err := priority.ParsePattern(pattern)
	return err == nil && p.Match(path)
}

// tenant tells on whose behalf the request comes. It is false where that is why
// it was refused.
func (t *teller) tenant() bool {
	d := &t.p.Decision
	path, said := t.TenantPath(t.r)
	switch d.Reason {
	case admission.TenantMissing:
		t.step("tenant", refused, "tenants.missing", "the request does not say on whose behalf it comes, and such are rejected")
		return false
	case admission.TenantUnknown, admission.BadRequest:
		if t.p.Early && t.r.Tenant == "" {
			t.step("tenant", refused, path, strings.TrimSuffix(lower(orDetail(d)), "."))
			return false
		}
	}
	switch {
	case !said:
		t.step("tenant", t.r.Tenant, path, "given with the question, and taken as identified")
	case path == "tenants.missing":
		t.step("tenant", t.r.Tenant, path, fmt.Sprintf("no place says a tenant, and such requests are one tenant, %s", tenant.Anonymous))
	default:
		t.step("tenant", t.r.Tenant, path, t.source(path))
	}
	return true
}

// source tells what kind of place a tenant was read at.
func (t *teller) source(path string) string {
	for i, s := range t.cfg.Tenants.From {
		if path != strict.Index("tenants.from", i) {
			continue
		}
		switch {
		case s.Header != "":
			return fmt.Sprintf("named in the header field %s", s.Header)
		case s.APIKey != nil:
			return fmt.Sprintf("known by the API key in %s", s.APIKey.Header)
		case s.ClientIP != nil:
			return fmt.Sprintf("known by the client's address, %s", t.r.Client)
		}
		return "known by the client's certificate"
	}
	return "identified"
}

// class tells how much the request matters, and which rules were tried.
func (t *teller) class() {
	if t.r.Class < 0 {
		return
	}
	var tried []Fact
	for i, holds := range t.see.holds {
		if t.see.choice.By == priority.ByRule && i > t.see.choice.Rule {
			break
		}
		text := "does not hold"
		if holds {
			text = "holds"
		}
		tried = append(tried, Fact{"rule " + string(t.cfg.Priority[i].ID), fmt.Sprintf("%s (line %d)", text, t.cfg.Line(strict.Index("priority", i)))})
	}
	class := t.ClassName(t.r.Class)
	switch t.see.choice.By {
	case priority.ByRule:
		t.step("class", class, strict.Index("priority", t.see.choice.Rule), fmt.Sprintf("by the priority rule %s, the first that holds", t.r.Rule), tried...)
	case priority.ByHeader:
		t.step("class", class, "class_header", fmt.Sprintf("as asked for in %s", t.cfg.ClassHeader.Name), tried...)
	case priority.ByCeiling:
		path := "class_header.ceiling"
		if o, ok := t.cfg.Tenants.Overrides[t.r.Tenant]; ok && o.MaxClass != "" {
			path = strict.Key("tenants.overrides", t.r.Tenant) + ".max_class"
		}
		asked, _ := t.r.Header.Get(string(t.cfg.ClassHeader.Name))
		t.step("class", class, path, fmt.Sprintf("the most important that %s may ask for; it asked for %s", t.r.Tenant, asked), tried...)
	default:
		t.step("class", class, t.RoutePath(t.r.Route)+".class", "the route's own", tried...)
	}
}

// key tells what is done with the idempotency key. It is false where that is why
// the request was refused before the gates.
func (t *teller) key() bool {
	policy := t.cfg.Routes[t.r.Route.Index].Idempotency
	at := t.RoutePath(t.r.Route) + ".idempotency"
	_, sent := t.r.Header.Get("Idempotency-Key")
	switch {
	case policy == nil:
		return true
	case t.p.Early:
		t.step("key", refused, at+".key", lower(strings.TrimSuffix(orDetail(&t.p.Decision), ".")))
		return false
	case t.p.Decision.KeyStatus != "" || t.r.Keyed:
		t.step("key", "counts", at+".key", fmt.Sprintf("the route's keys are %s, and the request has one", policy.Key))
	case sent > 0:
		t.step("key", "ignored", at, fmt.Sprintf("the request has one, but the route does not look at it (%s)", policy.Key))
	default:
		t.step("key", "none", at+".key", fmt.Sprintf("the route's keys are %s, and the request has none", policy.Key))
	}
	return true
}

// gates tells what each gate said.
func (t *teller) gates() {
	if len(t.p.Stops) == 0 { // a recorded answer was at hand
		return
	}
	stopped := false
	for _, stop := range t.p.Stops {
		path := t.StopPath(stop, t.r)
		if path == "" {
			continue
		}
		outcome := passed
		switch f := stop.Refusal; {
		case f.Is() && f.Mode == admission.Enforce && t.r.Route.Mode == admission.Enforce:
			outcome, stopped = refused, true
		case f.Is():
			outcome = shadow
		}
		switch stop.Gate {
		case gateway.BucketGate:
			t.bucket(outcome, path)
		case gateway.QueueGate:
			t.queue(outcome, path, stop.Refusal.Reason)
		default:
			t.placesAt(outcome, path)
		}
	}
	if stopped && t.r.Keyed || stopped && t.p.Decision.Verdict == admission.Replay {
		t.step("record", "looked up", t.RoutePath(t.r.Route)+".idempotency", "a request with a key that is refused may be the retry of one that was executed")
	}
}

func (t *teller) bucket(outcome, path string) {
	b := &t.see.bucket
	saw := []Fact{
		{"tokens", fmt.Sprintf("%s of %d", number(b.Tokens), b.Quota.Burst)},
		{"cost", fmt.Sprint(b.Cost)},
		{"rate", value.Rate(b.Quota.Rate).String()},
		{"bucket", bucketWords[b.Source]},
	}
	says := "there are enough tokens"
	if outcome != passed {
		says = "there are too few tokens; enough in " + span(b.Wait)
		if b.Never {
			says = "the bucket never holds as many tokens as it costs"
		}
	}
	if outcome == shadow {
		says += "; the limit is in shadow, so it passes"
	}
	t.step("limit", outcome, path, says, saw...)
}

var bucketWords = map[ratelimit.Source]string{
	ratelimit.Fresh: "the tenant's, not used before", ratelimit.Own: "the tenant's",
	ratelimit.Override: "the tenant's, by an override", ratelimit.Overflow: "shared, for want of room",
}

func (t *teller) queue(outcome, path string, reason admission.Reason) {
	q, name := t.see.queue, t.r.Route.Queue
	class := t.ClassName(t.r.Class)
	c := &q.Classes[t.r.Class]
	band := t.band()
	wait := "not known"
	if w, ok := q.Wait.Get(); ok {
		wait = fmt.Sprintf("%s of %s", secs(w), span(q.MaxUsefulAge))
	}
	saw := []Fact{{"predicted wait", wait}}
	if q.MaxDepth > 0 {
		saw = append(saw, Fact{"most depth", fmt.Sprintf("%.0f", q.MaxDepth)})
	}
	saw = append(saw,
		Fact{"strain", fmt.Sprintf("%.1f%% of what the queue allows", q.Strain*100)},
		Fact{"band of " + class, fmt.Sprintf("from %s to %s", t.mark(band.From), t.mark(band.Full))},
		Fact{"share admitted", fmt.Sprintf("%.1f%% of %s", c.Share*100, class)})
	for _, s := range q.Signals {
		saw = append(saw, Fact{"signal " + s.Name, signalText(&s)})
	}
	var says string
	switch {
	case reason == admission.SignalLost:
		says = fmt.Sprintf("a signal of %s is lost, and its policy is closed", name)
	case outcome == passed && c.Share >= 1:
		says = fmt.Sprintf("all of %s get in", class)
	case outcome == passed:
		says = fmt.Sprintf("some of %s get in, and this one did: who does is drawn, light tenants first", class)
	case c.Share > 0.01:
		says = fmt.Sprintf("some of %s get in, and this one did not: who does is drawn, light tenants first", class)
	default:
		says = fmt.Sprintf("no more than a probe of %s gets in", class)
	}
	if outcome == shadow {
		says += "; in shadow, so it passes"
	}
	t.step("queue", outcome, path, says, saw...)
}

// band is that of the request's class at its queue.
func (t *teller) band() config.Band {
	queue := t.cfg.Queues[config.ID(t.r.Route.Queue)]
	return queue.Band(config.ID(t.ClassName(t.r.Class)))
}

// mark shows a point of a band as a time.
func (t *teller) mark(m config.Mark) string {
	limit := t.cfg.Queues[config.ID(t.r.Route.Queue)].MaxUsefulAge
	at := span(time.Duration(m.Of(limit) * float64(limit)))
	if m.Wait == 0 {
		at += " (" + m.String() + ")"
	}
	return at
}

func signalText(s *shedding.SignalState) string {
	var parts []string
	if age, ok := s.Last.Age.Get(); ok {
		parts = append(parts, "age "+secs(age))
	}
	if depth, ok := s.Last.Depth.Get(); ok {
		parts = append(parts, fmt.Sprintf("depth %.0f", depth))
	}
	if s.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%s done a second", number(s.Rate)))
	}
	if s.Flaw == shedding.Failed {
		parts = append(parts, "it could not be read")
	} else if s.Flaw > shedding.Skewed {
		parts = append(parts, "the last reading was "+s.Flaw.String())
	}
	text := s.Health.String()
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

func (t *teller) placesAt(outcome, path string) {
	p := t.see.places
	saw := []Fact{{"places taken", fmt.Sprintf("%d of %d", p.Used, p.Limit)}}
	says := "a place is free"
	if outcome != passed {
		says = "no place is free"
		if wait := t.cfg.Classes[t.r.Class].MaxWait; wait > 0 {
			saw = append(saw, Fact{"max_wait", wait.String() + ", which a gateway waits for one and an explanation does not"})
		}
	}
	if outcome == shadow {
		says += "; in shadow, so it passes"
	}
	t.step("places", outcome, path, says, saw...)
}

// record tells what the store knows of the request's key.
func (t *teller) record() {
	d := &t.p.Decision
	at := t.RoutePath(t.r.Route) + ".idempotency"
	switch {
	case d.Verdict == admission.Replay:
		t.step("record", "replayed", at, fmt.Sprintf("the first request was answered with %d, and this one gets the same", d.Recorded.Status))
	case d.Verdict == admission.Refuse && d.KeyStatus != "":
		t.step("record", refused, at, lower(d.Reason.Title()))
	case d.Verdict == admission.Admit && t.r.Keyed:
		t.step("record", "claimed", at, fmt.Sprintf("the key is new; its answer is kept for %s", t.cfg.Routes[t.r.Route.Index].Idempotency.Retention))
	}
}

func orDetail(d *admission.Decision) string {
	if detail := d.Detail(); detail != "" {
		return detail
	}
	return d.Reason.Detail()
}

// lower makes the beginning of a sentence part of another.
func lower(s string) string {
	if s == "" || strings.HasPrefix(s, "API") || strings.HasPrefix(s, "Idempotency-Key") {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// number shows a quantity with as many digits as say something.
func number(v float64) string {
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func secs(v float64) string { return span(time.Duration(v * float64(time.Second))) }

// span shows a time as files write it, to three digits or so.
func span(d time.Duration) string {
	to := time.Millisecond
	switch {
	case d > time.Hour:
		to = time.Minute
	case d > time.Minute:
		to = time.Second
	case d > 10*time.Second:
		to = 100 * time.Millisecond
	case d > time.Second:
		to = 10 * time.Millisecond
	}
	return value.Duration(d.Round(to)).String()
}
