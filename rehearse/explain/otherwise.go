package explain

import (
	"fmt"
	"math"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/config/strict"
	"sluice/gateway"
)

// wire tells what the client gets.
func (t *teller) wire() {
	d, w := &t.p.Decision, &t.out.Wire
	field := func(name, value string) {
		if value != "" {
			w.Fields = append(w.Fields, Fact{name, value})
		}
	}
	switch d.Verdict {
	case admission.Admit:
		return
	case admission.Replay:
		w.Status = t.p.Status
		field("Idempotent-Replayed", "true")
		field("Idempotency-Status", d.KeyStatus)
		return
	}
	w.Status, w.Title, w.Detail = t.p.Status, d.Reason.Title(), orDetail(d)
	field("Content-Type", "application/problem+json")
	if wait, told := t.p.RetryAfter(); told {
		field("Retry-After", fmt.Sprint(int(wait.Seconds())))
	}
	field("WWW-Authenticate", d.Challenge())
	field("Idempotency-Status", d.KeyStatus)
	if d.Promise.Made() && d.Promise.Signer != nil {
		field("Sluice-Ticket", "a ticket, with which it is preferred when it comes back")
	}
}

func (t *teller) or(format string, args ...any) {
	t.out.Otherwise = append(t.out.Otherwise, fmt.Sprintf(format, args...))
}

// otherwise tells what would have changed the decision, the nearest first.
func (t *teller) otherwise() {
	d := &t.p.Decision
	switch {
	case d.Verdict == admission.Admit && t.r.Route == nil:
		t.nearRoutes("a policy")
		t.or("unmatched: refuse would have refused it with 404")
	case d.Verdict == admission.Admit:
		t.refusals()
	case d.Verdict == admission.Replay:
		t.or("without its Idempotency-Key, or with a new one, it would have been a request of its own")
	case t.p.Early || d.KeyStatus != "":
		t.ofRequest(d.Reason)
	default:
		t.ofGates(d.Reason)
	}
}

// nearRoutes names routes that match the path and not the method.
func (t *teller) nearRoutes(what string) {
	for i := range t.cfg.Routes {
		r := &t.cfg.Routes[i]
		if matches(string(r.Match.Path), t.r.Path) {
			t.or("as %s it would have had %s: route %s (line %d)", methods(r.Match.Methods), what, r.ID, t.cfg.Line(strict.Index("routes", i)))
		}
	}
}

// ofRequest tells what another request would have met, and another policy said.
func (t *teller) ofRequest(reason admission.Reason) {
	switch reason {
	case admission.NoRoute:
		t.nearRoutes("a route")
		t.or("unmatched: forward would pass on what no route matches")
	case admission.BadRequest:
		t.or("a path without encoded or repeated slashes, dot segments, backslashes and parameters, and each field once")
	case admission.TenantMissing:
		t.or("%s", t.p.Decision.Detail())
		t.or("missing: anonymous would let such requests be one tenant (tenants.missing, line %d)", t.cfg.Line("tenants.missing"))
	case admission.TenantUnknown:
		if t.p.Decision.Challenge() != "" {
			t.or("an API key that is listed (tenants.api_keys, line %d)", t.cfg.Line("tenants.api_keys"))
		} else {
			t.or("a name of visible ASCII characters, that is not reserved and does not need an API key")
		}
	case admission.KeyMissing:
		t.or("an Idempotency-Key")
		t.or("key: optional would not ask for one (line %d)", t.cfg.Line(t.RoutePath(t.r.Route)+".idempotency.key"))
	case admission.KeyInvalid:
		t.or("a key of 1 to 255 visible ASCII characters, sent once")
	case admission.KeyReused:
		t.or("the same path, query and body as the first request had, which would have been answered like it")
		t.or("a new key")
	case admission.KeyInProgress:
		t.or("once the first request has ended, its answer")
	case admission.KeyInDoubt:
		t.or("on_unknown: release, for an origin that knows keys itself, would send it again")
		t.or("an operator can settle the record")
	}
}

// ofGates tells what would have got a request past the gate that refused it.
func (t *teller) ofGates(reason admission.Reason) {
	switch reason {
	case admission.TenantLimit:
		b := &t.see.bucket
		if !b.Never {
			t.or("%s later there would be enough tokens", span(b.Wait))
		}
		more := int64(math.Ceil(float64(b.Cost) - b.Tokens))
		t.or("a burst of %d, not %d, would have let this one pass (line %d)", int64(b.Quota.Burst)+more, b.Quota.Burst, t.cfg.Line(t.out.Path))
	case admission.Shed, admission.Deferred:
		t.ofQueue()
	case admission.SignalLost:
		t.or("a reading of the signal")
		t.or("on_loss: hold would go on from what was last read (line %d)", t.cfg.Line(t.out.Path))
	case admission.OriginFull:
		p := t.see.places
		t.or("one place: %d of %d were taken", p.Used, p.Limit)
		if wait := t.cfg.Classes[t.r.Class].MaxWait; wait > 0 {
			t.or("a place that becomes free within max_wait, %s, for which a gateway waits", wait)
		}
	}
	t.or("mode: shadow would count it and let it pass")
}

// ofQueue tells what would have got a request into its queue.
func (t *teller) ofQueue() {
	q := t.see.queue
	c := &q.Classes[t.r.Class]
	// No class gets in at a higher share than one that matters more.
	queue := t.cfg.Queues[config.ID(t.r.Route.Queue)]
	from := 1.0
	for _, class := range t.Classes[:t.r.Class+1] {
		from = min(from, queue.Band(config.ID(class)).From.Of(queue.MaxUsefulAge))
	}
	t.or("up to a predicted wait of %s all of %s get in", span(time.Duration(from*float64(queue.MaxUsefulAge))), t.ClassName(t.r.Class))
	if wait, told := t.p.RetryAfter(); told && t.p.Decision.Promise.Made() {
		standing, share := "with the class above", ""
		if t.r.Class == 0 {
			standing = "before newcomers"
		}
		if c.BackShare > c.Share {
			share = fmt.Sprintf(", of which %.0f%% get in as it is now", c.BackShare*100)
		}
		t.or("back after %s, as told, it stands %s%s", span(wait), standing, share)
	}
	for i := int(t.r.Class) - 1; i >= 0; i-- {
		if share := q.Classes[i].Share; share > c.Share {
			t.or("as %s: %.0f%% of that class get in", t.ClassName(admission.Class(i)), share*100)
			break
		}
	}
}

// refusals tells what would have refused a request that got in, gate by gate.
func (t *teller) refusals() {
	for _, stop := range t.p.Stops {
		path := t.StopPath(stop, t.r)
		if path == "" {
			continue
		}
		if stop.Refusal.Is() {
			t.or("mode: enforce would have refused it: %s (%s)", stop.Refusal.Reason, t.Where(path))
			continue
		}
		switch stop.Gate {
		case gateway.BucketGate:
			b := &t.see.bucket
			if b.Cost > 0 {
				t.or("after %d like it at once, the tenant's tokens are gone (%s)", int64(b.Tokens)/b.Cost, t.Where(path))
			}
		case gateway.QueueGate:
			if c := &t.see.queue.Classes[t.r.Class]; c.Share < 1 {
				t.or("another draw: %.1f%% of %s get in (%s)", c.Share*100, t.ClassName(t.r.Class), t.Where(path))
			} else {
				t.or("from a predicted wait of %s on, some of %s are refused (%s)", t.mark(t.band().From), t.ClassName(t.r.Class), t.Where(path))
			}
		default:
			p := t.see.places
			t.or("with %d more at the origin there is no place (%s)", p.Limit-p.Used, t.Where(path))
		}
	}
}
