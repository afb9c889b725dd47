package gateway

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/admin"
	"sluice/admission"
	"sluice/config"
	"sluice/config/value"
	"sluice/priority"
	"sluice/proxy"
	"sluice/shedding"
	"sluice/shedding/signals"
)

// queues is shedding under one configuration: the gate, and what reads the
// signals for it.
type queues struct {
	gate    *shedding.Gate
	sources []signals.Source
	pushed  []pushed
	sink    signals.Sink // what takes the readings; nil: the gate
	poller  *signals.Poller
	classes []string // as keepers are told of them
	keepers []keeper // of what is read
}

// pushed is a signal that is told by the origin, or posted.
type pushed struct {
	queue, signal string
	header        string // of the origin's answers; "" none
	push          *signals.Push
	last          *complaint
}

// queuesOf prepares the queues, taking over what was learned under the
// configuration before. It reads nothing yet.
func queuesOf(cfg *config.Config, was *queues, classes []string, now time.Time) (*queues, error) {
	o := shedding.Options{Classes: len(classes)}
	q := &queues{classes: classes}
	for _, name := range queueNames(cfg) {
		c := cfg.Queues[config.ID(name)]
		opts := shedding.QueueOptions{
			Name: name, MaxUsefulAge: time.Duration(c.MaxUsefulAge), MaxDepth: float64(c.MaxDepth),
			MaxRetryAfter: time.Duration(c.MaxRetryAfter), Mode: modeOf(c.Mode),
		}
		for _, class := range classes {
			opts.Bands = append(opts.Bands, bandOf(c.Band(config.ID(class)), c.MaxUsefulAge))
		}
		for i := range c.Signals {
			s := &c.Signals[i]
			opts.Signals = append(opts.Signals, shedding.SignalOptions{
				Name: string(s.Name), Every: time.Duration(s.Every), Delay: time.Duration(s.Delay),
				OnLoss: losses[s.OnLoss], Retention: max(time.Duration(s.Retention), opts.MaxUsefulAge),
			})
			reader, err := q.reader(name, s)
			if err != nil {
				q.close()
				return nil, fmt.Errorf("queues.%s.signals[%d]: %w", name, i, err)
			}
			q.sources = append(q.sources, signals.Source{Queue: name, Signal: string(s.Name), Reader: reader, Every: time.Duration(s.Every)})
		}
		o.Queues = append(o.Queues, opts)
	}
	var secrets [][]byte
	for _, s := range cfg.Store.Secrets {
		secrets = append(secrets, []byte("ticket: "+s.Reveal()))
	}
	tickets, err := shedding.NewTickets(secrets...)
	if err != nil {
		return nil, err
	}
	o.Tickets = tickets
	var before *shedding.Gate
	if was != nil {
		before = was.gate
	}
	if q.gate, err = shedding.New(o, now, before); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func queueNames(cfg *config.Config) []string {
	return texts(slices.Sorted(maps.Keys(cfg.Queues)))
}

var losses = map[config.OnLoss]shedding.Loss{
	config.LossHold: shedding.Hold, config.LossCap: shedding.Cap, config.LossOpen: shedding.Open, config.LossClosed: shedding.Closed,
}

func bandOf(b config.Band, maxUsefulAge value.Duration) shedding.Band {
	out := shedding.Band{
		From: b.From.Of(maxUsefulAge), Full: b.Full.Of(maxUsefulAge), MinAdmit: b.MinAdmit.Fraction(),
		Status: b.Status, Mode: modeOf(b.Mode),
	}
	if b.Action == config.Defer {
		out.Action = shedding.Defer
	}
	return out
}

// reader makes the reader of a signal.
func (q *queues) reader(queue string, s *config.Signal) (signals.Reader, error) {
	switch {
	case s.RedisStream != nil:
		r := s.RedisStream
		return signals.NewRedisStream(signals.RedisStreamOptions{URL: r.URL.Reveal(), Stream: r.Stream, Group: r.Group})
	case s.RedisList != nil:
		r := s.RedisList
		return signals.NewRedisList(signals.RedisListOptions{URL: r.URL.Reveal(), Kind: string(r.Kind), Queue: r.Queue, Prefix: r.Prefix})
	case s.RabbitMQ != nil:
		r := s.RabbitMQ
		return signals.NewRabbitMQ(signals.RabbitMQOptions{URL: r.URL.Reveal(), API: r.API.Reveal(), VHost: r.VHost, Queue: r.Queue})
	case s.SQL != nil:
		r := s.SQL
		return signals.NewSQL(signals.SQLOptions{
			URL: r.URL.Reveal(), Table: r.Table, Due: r.Due, Pending: r.Waiting, Query: r.Query, Timeout: time.Duration(r.Timeout),
		})
	case s.Prometheus != nil:
		r := s.Prometheus
		return signals.NewPrometheus(signals.PrometheusOptions{
			URL: string(r.URL), Header: bearer(r.Token), Age: r.Age, Depth: r.Depth, Done: r.Done, Timestamp: r.Timestamp,
		})
	case s.HTTP != nil:
		r := s.HTTP
		return signals.NewHTTP(signals.HTTPOptions{
			URL: r.URL, Header: bearer(r.Token), Age: r.Age, Depth: r.Depth, Done: r.Done, SampledAt: r.SampledAt, Unit: string(r.Unit),
		})
	}
	push := &signals.Push{}
	q.pushed = append(q.pushed, pushed{queue, string(s.Name), string(s.Push.Header), push, &complaint{}})
	return push, nil
}

func bearer(token value.Secret) map[string]string {
	if token.IsZero() {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + token.Reveal()}
}

// start begins to read.
func (q *queues) start() {
	sink := q.sink
	if sink == nil {
		sink = q.gate
	}
	q.poller = signals.Start(q.noting(sink), q.sources...)
}

// stop ends reading, and lets go of what the readers hold.
func (q *queues) stop() {
	if q.poller != nil {
		q.poller.Stop()
	}
}

// close lets go of readers that were never started.
func (q *queues) close() {
	for _, s := range q.sources {
		_ = s.Reader.Close()
	}
}

// listeners are the fields of the origin's answers that tell of a queue.
func (q *queues) listeners(log *slog.Logger) (fields []proxy.SignalField) {
	for _, p := range q.pushed {
		if p.header != "" {
			fields = append(fields, proxy.SignalField{Name: p.header, Offer: func(value string) { p.offer(value, log) }})
		}
	}
	return fields
}

func (p *pushed) offer(value string, log *slog.Logger) {
	sample, err := signals.ParseHeader(value)
	if err != nil {
		if p.last.due(time.Now()) {
			log.Warn("the origin tells of a queue in words that cannot be read", "queue", p.queue, "signal", p.signal, "field", p.header, "error", err)
		}
		return
	}
	p.push.Offer(sample)
}

// signalDesk takes readings that are posted to the admin listener.
type signalDesk struct{ g *Gateway }

// Offer implements admin.Signals.
func (d signalDesk) Offer(name string, body []byte) error {
	now := d.g.current.Load()
	listening := now.queues.listening(name)
	if now.candidate != nil {
		listening = append(listening, now.candidate.queues.listening(name)...)
	}
	if len(listening) == 0 {
		return admin.ErrNoSignal
	}
	sample, err := signals.ParseBody(body)
	if err != nil {
		return err
	}
	for _, push := range listening {
		push.Offer(sample)
	}
	return nil
}

// listening is the signal that readings posted under a name are for: that of a
// queue, or one of several as queue/signal. None where there is none.
func (q *queues) listening(name string) []*signals.Push {
	for _, p := range q.pushed {
		if name == p.queue || name == p.queue+"/"+p.signal {
			return []*signals.Push{p.push}
		}
	}
	return nil
}

// complaint lets something be complained of once a minute.
type complaint struct {
	mu   sync.Mutex
	next time.Time
}

func (c *complaint) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.next) {
		return false
	}
	c.next = now.Add(time.Minute)
	return true
}

// places are the bounded places at the origin: those of all routes, and those
// that single routes have for themselves. They outlive policies, so that
// requests that hold one are counted after a reload, too.
type places struct {
	mu   sync.Mutex
	made map[string]*priority.Slots // by route id; "" for all
}

// slotOptions returns the options of all places that cfg asks for, by route id.
func slotOptions(cfg *config.Config) map[string]priority.SlotOptions {
	classes := make([]priority.SlotClass, len(cfg.Classes))
	for i, c := range cfg.Classes {
		classes[i] = priority.SlotClass{Share: c.Share.Fraction(), MaxWait: time.Duration(c.MaxWait)}
	}
	all := make(map[string]priority.SlotOptions)
	if n := cfg.Origin.MaxInFlight; n > 0 {
		all[""] = priority.SlotOptions{Max: n, Learn: cfg.Origin.LearnInFlight, Classes: classes}
	}
	for _, r := range cfg.Routes {
		if r.MaxInFlight > 0 {
			all[string(r.ID)] = priority.SlotOptions{Max: r.MaxInFlight, Learn: cfg.Origin.LearnInFlight, Classes: classes}
		}
	}
	return all
}

// gate returns the places of one policy as one gate; nil where there are none.
// The options have been tried before, so making them cannot fail.
func (p *places) gate(opts map[string]priority.SlotOptions, routes []*admission.Route) admission.Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = make(map[string]*priority.Slots)
	}
	for id := range p.made {
		if _, still := opts[id]; !still {
			delete(p.made, id)
		}
	}
	for id, o := range opts {
		if s := p.made[id]; s != nil {
			_ = s.Resize(o)
		} else if s, err := priority.NewSlots(o); err == nil {
			p.made[id] = s
		}
	}
	if len(p.made) == 0 {
		return nil
	}
	g := &placeGate{byRoute: make([]*priority.Slots, len(routes))}
	for i, r := range routes {
		g.byRoute[i] = p.made[""]
		if own := p.made[r.ID]; own != nil {
			g.byRoute[i] = own
		}
	}
	return g
}

// state returns the state of all places, by route id.
func (p *places) state() map[string]priority.SlotState {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]priority.SlotState, len(p.made))
	for id, s := range p.made {
		all[id] = s.State()
	}
	return all
}

// placeGate sends each request to the places of its route, and its permit back
// to those.
type placeGate struct {
	byRoute []*priority.Slots // by route index; nil: no bound
}

func (g *placeGate) Reserve(now time.Time, r *admission.Request, d *admission.Decision) (admission.Permit, admission.Refusal) {
	if s := g.byRoute[r.Route.Index]; s != nil {
		return s.Reserve(now, r, d)
	}
	return admission.Permit{}, admission.Refusal{}
}

// Anticipate implements [admission.Gate]: places are few, and always at hand.
func (g *placeGate) Anticipate(*admission.Request) {}

func (g *placeGate) GiveBack(now time.Time, p admission.Permit) {
	p.Ref.(*priority.Slots).GiveBack(now, p)
}

func (g *placeGate) End(now time.Time, p admission.Permit, o admission.Outcome) {
	p.Ref.(*priority.Slots).End(now, p, o)
}

// finite makes a number fit for JSON: infinite where it has no bound.
func finite(v float64) any {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return v
}
