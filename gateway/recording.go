package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/admin"
	"sluice/config"
	"sluice/shedding"
	"sluice/shedding/signals"
)

// hiderOf hides what recordings must not show by the store's secret, where it
// has one: then it is the same over restarts and in each gateway.
func hiderOf(cfg *config.Config) *admin.Hider {
	if len(cfg.Store.Secrets) == 0 {
		return admin.NewHider(nil)
	}
	return admin.NewHider([]byte(cfg.Store.Secrets[0].Reveal()))
}

func logOptions(cfg *config.Config, log *slog.Logger, hider *admin.Hider) admin.LogOptions {
	c := &cfg.DecisionLog
	o := admin.LogOptions{
		PerSecond: c.RefusalsPerSecond, AdmitsPerSecond: c.AdmitsPerSecond, Signals: c.Signals, Hider: hider, Logger: log,
	}
	if c.Complete {
		o.PerSecond, o.AdmitsPerSecond = admin.All, admin.All
	}
	return o
}

// FieldsRead lists the header fields that a configuration's decisions depend on:
// those that say a tenant, a class or a cost, that priority rules look at, and
// that tell how long a client waits. Idempotency keys and tickets are apart.
func FieldsRead(cfg *config.Config) (fields []string) {
	for _, s := range cfg.Tenants.From {
		switch {
		case s.Header != "":
			fields = append(fields, string(s.Header))
		case s.APIKey != nil:
			fields = append(fields, string(s.APIKey.Header))
		}
	}
	if cfg.ClassHeader != nil {
		fields = append(fields, string(cfg.ClassHeader.Name))
	}
	for i := range cfg.Priority {
		fields = append(fields, fieldsOf(&cfg.Priority[i].When)...)
	}
	for i := range cfg.Routes {
		if c := cfg.Routes[i].CostHeader; c != nil {
			fields = append(fields, string(c.Name))
		}
	}
	if cfg.Origin.DeadlineHeader != "" {
		fields = append(fields, string(cfg.Origin.DeadlineHeader))
	}
	return fields
}

func fieldsOf(c *config.Condition) (fields []string) {
	for name := range c.Header {
		fields = append(fields, string(name))
	}
	for i := range c.Any {
		fields = append(fields, fieldsOf(&c.Any[i])...)
	}
	for i := range c.All {
		fields = append(fields, fieldsOf(&c.All[i])...)
	}
	if c.Not != nil {
		fields = append(fields, fieldsOf(c.Not)...)
	}
	return fields
}

// FactsOf says what records hold of requests under cfg.
func FactsOf(cfg *config.Config) admin.Facts {
	f := admin.Facts{Fields: append(FieldsRead(cfg), texts(cfg.DecisionLog.Headers)...)}
	for _, s := range cfg.Tenants.From {
		switch {
		case s.Header != "":
			f.Identity = append(f.Identity, admin.IdentityPlace{Field: string(s.Header)})
		case s.APIKey != nil:
			f.Identity = append(f.Identity, admin.IdentityPlace{Field: string(s.APIKey.Header), Credential: true})
		default:
			f.Identity = append(f.Identity, admin.IdentityPlace{Cert: s.ClientCert != ""})
		}
	}
	return f
}

// keeper keeps readings.
type keeper interface{ Signal(admin.SignalLine) }

// keepers are whoever keeps the readings that the gateway gets.
func (g *Gateway) keepers() []keeper {
	all := []keeper{g.live}
	if g.records != nil {
		all = append(all, g.records)
	}
	return all
}

// noting is a sink of readings that has each of them kept as well.
func (q *queues) noting(to signals.Sink) signals.Sink {
	if len(q.keepers) == 0 {
		return to
	}
	return &noted{Sink: to, queues: q}
}

type noted struct {
	signals.Sink
	queues *queues
}

// Observe implements signals.Sink.
func (n *noted) Observe(now time.Time, queue, signal string, s shedding.Sample) (shedding.Flaw, error) {
	flaw, err := n.Sink.Observe(now, queue, signal, s)
	l := admin.SignalLine{Time: now.UTC(), Queue: queue, Signal: signal}
	if !s.At.IsZero() {
		at := s.At.UTC()
		l.At = &at
	}
	for _, f := range []struct {
		from shedding.Value
		to   **float64
	}{{s.Age, &l.Age}, {s.Depth, &l.Depth}, {s.Done, &l.Done}} {
		if v, ok := f.from.Get(); ok {
			*f.to = l.Figure(v)
		}
	}
	n.note(now, l)
	return flaw, err
}

// Fail implements signals.Sink.
func (n *noted) Fail(now time.Time, queue, signal string, cause error) error {
	err := n.Sink.Fail(now, queue, signal, cause)
	// The error may name what it is not for everybody to know.
	n.note(now, admin.SignalLine{Time: now.UTC(), Queue: queue, Signal: signal, Failed: true})
	return err
}

// note adds what the queue makes of it.
func (n *noted) note(now time.Time, l admin.SignalLine) {
	if s, ok := n.queues.gate.QueueState(now, l.Queue); ok {
		if w, ok := s.Wait.Get(); ok && finite(w) != nil {
			l.Wait = &w
		}
		l.Share = make(map[string]float64, len(s.Classes))
		for i, c := range s.Classes {
			l.Share[n.queues.classes[i]] = c.Share
		}
	}
	for _, k := range n.queues.keepers {
		k.Signal(l)
	}
}

// Explain tells the decision about the request of that id step by step, as far
// as the tail remembers it: its error is [admin.ErrForgotten] where it does not.
func (g *Gateway) Explain(_ context.Context, id string) (any, error) {
	m, ok := g.live.Remember(id)
	if !ok {
		return nil, admin.ErrForgotten
	}
	if g.opts.Explain == nil {
		return nil, errors.New("this gateway was started without what explains decisions")
	}
	cfg := g.current.Load().cfg
	if m.Decision.Config != cfg.Source.Hash {
		return nil, fmt.Errorf("the decision was made under a configuration that is not in force any more, %s; now it is %s", m.Decision.Config, cfg.Source.Hash)
	}
	return g.opts.Explain(cfg, m)
}
