package replay

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/config"
	"sluice/gateway"
	"sluice/rehearse"
	"sluice/rehearse/recording"
	"sluice/shedding"
)

// Taken says why a decision was taken as recorded. The zero value is that it was
// made again.
type Taken string

// Why decisions are taken as recorded.
const (
	Outside    Taken = "not decided by the policy: malformed, too large, too slow, or the gateway was stopping"
	Cut        Taken = "its facts were too long to be recorded"
	Credential Taken = "refused for its credential, which is not recorded"
	StoreAway  Taken = "the store could not be asked"
	NoPlaces   Taken = "the origin took no more connections"
	// A gateway lets these wait, and a replay does not.
	WaitsForPlace Taken = "it finds no place at the origin at once, and its class may wait for one"
	WaitsForFirst Taken = "the first request with its key still runs, and its route waits for that"
)

// outside are the reasons for which no policy refuses.
var outside = []admission.Reason{
	admission.TooLarge, admission.URITooLong, admission.HeadersTooLarge, admission.MethodNotAllowed, admission.ExpectationFailed,
	admission.VersionUnsupported, admission.EncodingUnsupported, admission.RequestTimeout, admission.LoopDetected,
	admission.TooManyConnections, admission.Draining, admission.Internal,
}

// Player plays a recording under a policy, event by event. It is for one
// goroutine. End it with Close.
type Player struct {
	*rehearse.Stage
	cfg    *config.Config
	begin  time.Time
	events []recording.Event
	next   int

	keyHeader bool // the policy knows tenants by API key
	takes     map[string]time.Duration
	signals   map[string][]string              // names of each queue's
	seen      map[string]bool                  // keys that were sent
	promises  map[string]bool                  // that were recorded
	promised  map[string]*rehearse.Performance // that were made again

	// Unheard counts readings of signals that the policy does not have, by
	// queue/signal.
	Unheard map[string]int
	// Strangers counts requests that came back for a promise from before the
	// recording.
	Strangers int
}

// NewPlayer puts rec on the stage of cfg.
func NewPlayer(cfg *config.Config, rec *recording.Recording, seed uint64) (*Player, error) {
	p := &Player{
		cfg: cfg, begin: rec.Begin(), events: rec.Events(), takes: map[string]time.Duration{}, signals: map[string][]string{},
		seen: map[string]bool{}, promises: map[string]bool{}, promised: map[string]*rehearse.Performance{}, Unheard: map[string]int{},
	}
	var err error
	if p.Stage, err = rehearse.NewStage(cfg, rehearse.Given{Told: true, Seed: seed, Begin: p.begin}); err != nil {
		return nil, err
	}
	for _, s := range cfg.Tenants.From {
		p.keyHeader = p.keyHeader || s.APIKey != nil
	}
	for name, q := range cfg.Queues {
		for _, s := range q.Signals {
			p.signals[string(name)] = append(p.signals[string(name)], string(s.Name))
		}
	}
	p.averages(rec)
	for _, d := range rec.Decisions {
		if d.Promise != "" {
			p.promises[d.Promise] = true
		}
	}
	return p, nil
}

// averages finds for how long each route's requests are at the origin; that of
// all routes is under "".
func (p *Player) averages(rec *recording.Recording) {
	counts := map[string]int{}
	for _, d := range rec.Decisions {
		if d.Verdict == admission.Admit && d.Outcome == admission.Answered {
			for _, route := range []string{"", d.Route} {
				counts[route]++
				p.takes[route] += d.AtOrigin()
			}
		}
	}
	for route, n := range counts {
		p.takes[route] /= time.Duration(n)
	}
}

// Made is one decision made again.
type Made struct {
	*recording.Decision
	Taken Taken // why it is taken as recorded; "": it was made again
	// Performance is how it was made; nil where it is taken as recorded without.
	Performance *rehearse.Performance
}

// Next plays up to the next decision and hands it to done, at once or once the
// request has ended. It is false where there is none.
func (p *Player) Next(done func(Made)) (bool, error) {
	d, err := p.reach()
	if d == nil || err != nil {
		return false, err
	}
	p.play(d, done)
	return true, nil
}

// Before plays up to the decision d, and not it.
func (p *Player) Before(d *recording.Decision) error {
	for {
		e, err := p.reach()
		if e == nil || e == d || err != nil {
			return err
		}
		p.play(e, func(Made) {})
	}
}

// reach tells the readings before the next decision, and returns that at its
// time.
func (p *Player) reach() (*recording.Decision, error) {
	for p.next < len(p.events) {
		e := &p.events[p.next]
		p.next++
		if err := p.Advance(max(e.At.Sub(p.begin), p.Now())); err != nil {
			return nil, err
		}
		if e.Decision != nil {
			return e.Decision, nil
		}
		if err := p.tell(e.Signal); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// tell tells a reading to the signal of the same name, or to the only one of its
// queue.
func (p *Player) tell(s *admin.SignalLine) error {
	name, known := s.Signal, p.signals[s.Queue]
	switch {
	case slices.Contains(known, name):
	case len(known) == 1:
		name = known[0]
	default:
		p.Unheard[s.Queue+"/"+s.Signal]++
		return nil
	}
	return p.Tell(s.Queue, name, sampleOf(s), !s.Failed)
}

func sampleOf(s *admin.SignalLine) shedding.Sample {
	var out shedding.Sample
	if s.At != nil {
		out.At = *s.At
	}
	for _, f := range []struct {
		from *float64
		to   *shedding.Value
	}{{s.Age, &out.Age}, {s.Depth, &out.Depth}, {s.Done, &out.Done}} {
		if f.from != nil {
			*f.to = shedding.Known(*f.from)
		}
	}
	if s.Undefined {
		out.Age = shedding.Known(math.NaN())
	}
	return out
}

// play sends one recorded request.
func (p *Player) play(d *recording.Decision, done func(Made)) {
	if taken := p.taken(d); taken != "" {
		done(Made{Decision: d, Taken: taken})
		return
	}
	q := p.request(d)
	p.leave(d, q)
	p.Send(q, p.origin(d), func(made *rehearse.Performance) {
		if d.Promise != "" && made.Decision.Promise.Made() {
			p.promised[d.Promise] = made
		}
		done(Made{Decision: d, Taken: p.waits(d, made), Performance: made})
	})
}

// taken says why d cannot be made again; "": it can.
func (p *Player) taken(d *recording.Decision) Taken {
	switch {
	case d.Method == "" || slices.Contains(outside, d.Reason), d.Reason == admission.BadRequest && d.Tenant != "":
		return Outside
	case d.Cut || d.Path == "":
		return Cut
	case d.Identified != "" && d.Tenant == "" && d.Verdict == admission.Refuse:
		return Credential
	case d.Reason == admission.StoreUnavailable:
		return StoreAway
	}
	return ""
}

// request is the request that d is about.
func (p *Player) request(d *recording.Decision) *rehearse.Request {
	q := &rehearse.Request{
		Method: d.Method, Path: d.Path, ClientCert: d.Cert, Body: `"` + d.Fingerprint + `"`,
		Lot: admission.Lot(d.Lot), Again: admission.Lot(d.Again),
	}
	q.Client, _ = netip.ParseAddr(d.Client) // checked
	if d.Identified != "" && p.keyHeader {
		q.Identified = d.Tenant
	}
	for _, name := range slices.Sorted(maps.Keys(d.Fields)) {
		for _, value := range d.Fields[name] {
			q.Header = append(q.Header, rehearse.Field{Name: name, Value: value})
		}
	}
	switch {
	case d.Key == admin.InvalidKey:
		q.Header = append(q.Header, rehearse.Field{Name: "Idempotency-Key", Value: `"`})
	case d.Key != "":
		q.Header = append(q.Header, rehearse.Field{Name: "Idempotency-Key", Value: `"` + d.Key + `"`})
	}
	if d.Ticket != "" {
		of := p.promised[d.Ticket]
		switch {
		case of == nil && !p.promises[d.Ticket]:
			p.Strangers++
		case of == nil: // it had been refused, and was not here
		case of.Decision.Promise.Signer != nil:
			ticket := of.Decision.Promise.Signer.AppendTicket(nil, of.Request, &of.Decision.Promise)
			q.Header = append(q.Header, rehearse.Field{Name: "Sluice-Ticket", Value: string(ticket)})
		}
	}
	return q
}

// leave lets the store hold what it held of a key before the recording.
func (p *Player) leave(d *recording.Decision, q *rehearse.Request) {
	if d.Key == "" || p.seen[d.Key] {
		return
	}
	p.seen[d.Key] = true
	before, o := *q, rehearse.Origin{Outcome: admission.Answered, Status: cmp.Or(d.Status, 200)}
	switch d.KeyStatus {
	case "replayed":
	case "reused":
		before.Body, o.Status = `"another"`, 200
	case "in_progress":
		o.Outcome = admission.NotTried
	case "in_doubt":
		o.Outcome = admission.Unknown
	default:
		return
	}
	p.Leave(&before, o)
}

// origin is how the origin takes the request.
func (p *Player) origin(d *recording.Decision) *rehearse.Origin {
	if d.Verdict == admission.Admit {
		o := &rehearse.Origin{Takes: d.AtOrigin(), Outcome: d.Outcome, Status: d.Status}
		if o.Outcome == admission.NotTried {
			o.Outcome = admission.NotSent
		}
		return o
	}
	takes, known := p.takes[d.Route]
	if !known {
		takes = p.takes[""]
	}
	return &rehearse.Origin{Takes: takes, Outcome: admission.Answered, Status: 200}
}

// waits says why a decision that was made without waiting may not be the one
// that waiting would have come to.
func (p *Player) waits(d *recording.Decision, made *rehearse.Performance) Taken {
	r := made.Request
	if r.Route == nil || made.Decision.Verdict == d.Verdict && made.Decision.Reason == d.Reason {
		return ""
	}
	route := &p.cfg.Routes[r.Route.Index]
	switch {
	case d.Reason == admission.OriginFull:
		if _, bounded := p.Places(r.Route); !bounded {
			return NoPlaces
		}
	case made.Decision.Reason == admission.OriginFull && p.cfg.Classes[r.Class].MaxWait > 0:
		return WaitsForPlace
	case made.Decision.Reason == admission.KeyInProgress && route.Idempotency != nil && route.Idempotency.Wait > 0:
		return WaitsForFirst
	}
	return ""
}

// Unread lists the header fields that cfg reads and that were not recorded,
// with the number of decisions to which that applies.
func Unread(cfg *config.Config, rec *recording.Recording) map[string]int {
	recorded := map[string][]string{} // by configuration
	for _, p := range rec.Policies {
		recorded[p.Config] = p.Fields
	}
	var wanted []string
	facts := gateway.FactsOf(cfg)
	for _, name := range gateway.FieldsRead(cfg) {
		if !facts.Secret(name) {
			wanted = append(wanted, strings.ToLower(name))
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	missing := map[string]int{}
	for _, d := range rec.Decisions {
		fields, known := recorded[d.Config]
		for _, name := range wanted {
			if known && !slices.Contains(fields, name) {
				missing[name]++
			}
		}
	}
	return missing
}
