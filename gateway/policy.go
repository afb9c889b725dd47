package gateway

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"sluice/admin"
	"sluice/admission"
	"sluice/admission/ratelimit"
	"sluice/admission/tenant"
	"sluice/config"
	"sluice/priority"
	"sluice/proxy"
)

// prepared is a configuration made ready to be swapped in: all that can fail
// has been done.
type prepared struct {
	cfg     *config.Config
	policy  *proxy.Policy
	limits  proxy.Limits
	buckets ratelimit.Options
	keys    *keys // nil: no route looks at keys
	queues  *queues
	places  map[string]priority.SlotOptions
	names   *admin.Policy
	tls     *serverTLS // nil without TLS

	adminTLS *serverTLS // of the private listener; nil without TLS

	certificates []certificate
}

// prepare makes cfg ready. was is what is in force, nil at the start; its
// origin is kept where nothing about it changes, and with it the connections.
func prepare(cfg *config.Config, was *prepared) (*prepared, error) {
	return prepareAt(cfg, was, time.Now())
}

// prepareAt is prepare with the time at which queues begin to be known.
func prepareAt(cfg *config.Config, was *prepared, now time.Time) (*prepared, error) {
	p := &prepared{cfg: cfg, limits: connectionLimits(cfg)}
	classes := classNames(cfg)
	routes, patterns := routesOf(cfg, classes)

	classifier, err := priority.New(priority.Options{
		Routes: patterns, Classes: classes, Rules: rulesOf(cfg, classes),
		Header: headerOf(cfg), Ceiling: ceilingOf(cfg, classes), Ceilings: ceilingsOf(cfg, classes),
	})
	if err != nil {
		return nil, err
	}
	identity, err := tenant.New(identityOf(cfg))
	if err != nil {
		return nil, err
	}
	p.buckets = bucketsOf(cfg)
	if err := p.buckets.Validate(); err != nil {
		return nil, err
	}
	if p.keys, err = keysOf(cfg); err != nil {
		return nil, err
	}
	p.places = slotOptions(cfg)
	for id, o := range p.places {
		if _, err := priority.NewSlots(o); err != nil {
			return nil, fmt.Errorf("max_in_flight %s: %w", id, err)
		}
	}
	var origin *proxy.Origin
	if was != nil && reflect.DeepEqual(cfg.Origin, was.cfg.Origin) && cfg.Origin.TLS == nil {
		origin = was.policy.Origin
	} else if origin, err = newOrigin(cfg); err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		if p.tls, err = loadTLS(cfg.TLS); err != nil {
			return nil, err
		}
	}
	if cfg.Admin.TLS != nil {
		if p.adminTLS, err = loadAdminTLS(cfg.Admin.TLS); err != nil {
			return nil, err
		}
	}

	p.certificates = certificatesOf(cfg)

	var learned *queues
	if was != nil {
		learned = was.queues
	}
	if p.queues, err = queuesOf(cfg, learned, classes, now); err != nil {
		return nil, err
	}

	p.names = &admin.Policy{
		Hash: cfg.Source.Hash, File: cfg.Source.File, Facts: FactsOf(cfg), Routes: routes, Classes: classes,
	}
	p.policy = &proxy.Policy{
		Controller: &admission.Controller{
			Classifier:      classifier,
			Identifier:      identity,
			RefuseUnmatched: cfg.Unmatched == config.Refuse,
		},
		Origin:         origin,
		Unmatched:      unmatchedPolicy(cfg),
		Classes:        classes,
		TrustedProxies: prefixes(cfg.TrustedProxies),
		XForwarded:     cfg.Forwarding.XForwarded,
		Forwarded:      cfg.Forwarding.Forwarded,
		DeadlineHeader: string(cfg.Origin.DeadlineHeader),
		RateLimit:      cfg.RateLimitHeaders != config.RateLimitOff,
	}
	for i := range cfg.Routes {
		p.policy.Routes = append(p.policy.Routes, routePolicy(&cfg.Routes[i]))
	}
	return p, nil
}

// attach puts the gates in place, in the order in which requests meet them:
// those that outlive policies, and so are not made with one.
func (p *prepared) attach(g *Gateway) {
	p.policy.Controller.Gates = p.gates(g.buckets, g.places.gate(p.places, p.names.Routes))
	p.policy.Signals = p.queues.listeners(g.log)
	if p.keys != nil {
		p.keys.gate = g.store.gate
		p.policy.Controller.Keys = p.keys
	}
}

// gates are those of a policy, in order; places are nil where nothing bounds
// them.
func (p *prepared) gates(buckets *ratelimit.Gate, places admission.Gate) []admission.Gate {
	gates := []admission.Gate{buckets}
	if len(p.cfg.Queues) > 0 {
		gates = append(gates, p.queues.gate)
	}
	if places != nil {
		gates = append(gates, places)
	}
	return gates
}

func classNames(cfg *config.Config) []string {
	names := make([]string, len(cfg.Classes))
	for i, c := range cfg.Classes {
		names[i] = string(c.Name)
	}
	return names
}

func classOf(classes []string, id config.ID) admission.Class {
	return admission.Class(slices.Index(classes, string(id)))
}

func modeOf(m config.Mode) admission.Mode {
	if m == config.Shadow {
		return admission.Shadow
	}
	return admission.Enforce
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func prefixes(list []config.Network) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, n := range list {
		out[i] = n.Prefix
	}
	return out
}

// routesOf returns the routes by index, and how each is matched.
func routesOf(cfg *config.Config, classes []string) ([]*admission.Route, []priority.Route) {
	var routes []*admission.Route
	var patterns []priority.Route
	queues := queueNames(cfg)
	for i, r := range cfg.Routes {
		route := &admission.Route{
			ID: string(r.ID), Index: i, Class: classOf(classes, r.Class), Mode: modeOf(r.Mode), Cost: r.Cost,
		}
		if r.Queue != "" {
			route.Queue, route.QueueAt = string(r.Queue), slices.Index(queues, string(r.Queue))
		}
		if r.CostHeader != nil {
			route.CostBy, route.CostCap = string(r.CostHeader.Name), r.CostHeader.Max
		}
		routes = append(routes, route)
		patterns = append(patterns, priority.Route{Route: route, Methods: texts(r.Match.Methods), Path: string(r.Match.Path)})
	}
	return routes, patterns
}

func rulesOf(cfg *config.Config, classes []string) []priority.Rule {
	var rules []priority.Rule
	for _, r := range cfg.Priority {
		rules = append(rules, priority.Rule{ID: string(r.ID), When: conditionOf(&r.When), Class: classOf(classes, r.Class)})
	}
	return rules
}

func conditionOf(c *config.Condition) priority.Condition {
	out := priority.Condition{Methods: texts(c.Methods), Path: string(c.Path), Tenants: texts(c.Tenants)}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		h := priority.HeaderCondition{Name: string(name), Op: priority.Like, Value: string(c.Header[name])}
		if h.Value == "*" {
			h.Op = priority.Present
		}
		out.Headers = append(out.Headers, h)
	}
	for i := range c.Any {
		out.Any = append(out.Any, conditionOf(&c.Any[i]))
	}
	for i := range c.All {
		out.All = append(out.All, conditionOf(&c.All[i]))
	}
	if c.Not != nil {
		not := conditionOf(c.Not)
		out.Not = &not
	}
	return out
}

func headerOf(cfg *config.Config) string {
	if cfg.ClassHeader == nil {
		return ""
	}
	return string(cfg.ClassHeader.Name)
}

func ceilingOf(cfg *config.Config, classes []string) admission.Class {
	if cfg.ClassHeader == nil {
		return 0
	}
	return classOf(classes, cfg.ClassHeader.Ceiling)
}

func ceilingsOf(cfg *config.Config, classes []string) map[string]admission.Class {
	out := make(map[string]admission.Class)
	for name, o := range cfg.Tenants.Overrides {
		if o.MaxClass != "" {
			out[name] = classOf(classes, o.MaxClass)
		}
	}
	return out
}

func identityOf(cfg *config.Config) tenant.Options {
	keys := make([]tenant.Key, len(cfg.Tenants.APIKeys))
	for i, k := range cfg.Tenants.APIKeys {
		keys[i] = tenant.Key{SHA256: k.SHA256.Sum(), Tenant: k.Tenant}
	}
	o := tenant.Options{Reject: cfg.Tenants.Missing == config.Reject}
	for _, s := range cfg.Tenants.From {
		source := tenant.Source{}
		switch {
		case s.Header != "":
			source.Kind, source.Header = tenant.Header, string(s.Header)
		case s.APIKey != nil:
			source.Kind, source.Keys, source.Header = tenant.APIKey, keys, string(s.APIKey.Header)
			if s.APIKey.Scheme == config.SchemeBearer {
				source.Header = ""
			}
		case s.ClientIP != nil:
			source.Kind, source.IPv4, source.IPv6 = tenant.Address, s.ClientIP.PrefixV4, s.ClientIP.PrefixV6
		default:
			source.Kind = tenant.ClientCert
		}
		o.From = append(o.From, source)
	}
	return o
}

func quotaOf(r float64, burst int64, mode config.Mode) ratelimit.Quota {
	return ratelimit.Quota{Rate: rate.Limit(r), Burst: int(burst), Mode: modeOf(mode)}
}

func bucketsOf(cfg *config.Config) ratelimit.Options {
	o := ratelimit.Options{MaxTenants: cfg.Tenants.MaxTracked, Routes: map[string]*ratelimit.Limit{}}
	unlimited := ratelimit.Quota{Rate: rate.Inf}
	limited := cfg.Tenants.Limit != nil
	l := &ratelimit.Limit{Name: "tenant", Quota: unlimited, Overrides: map[string]ratelimit.Quota{}}
	if limited {
		l.Quota = quotaOf(float64(cfg.Tenants.Limit.Rate), cfg.Tenants.Limit.Burst, cfg.Tenants.Limit.Mode)
	}
	for name, t := range cfg.Tenants.Overrides {
		if t.Rate > 0 {
			l.Overrides[name] = quotaOf(float64(t.Rate), t.Burst, t.Mode)
			limited = true
		}
	}
	if limited {
		o.Tenants = l
	}
	for _, r := range cfg.Routes {
		if r.Limit != nil {
			o.Routes[string(r.ID)] = &ratelimit.Limit{
				Name:  string(r.ID),
				Quota: quotaOf(float64(r.Limit.Rate), r.Limit.Burst, r.Limit.Mode),
			}
		}
	}
	return o
}

// newBuckets makes the buckets of p. Tenants go by the same hashes there as at
// p's queues, so that a request's is made once.
func newBuckets(p *prepared, now time.Time) (*ratelimit.Gate, error) {
	o := p.buckets
	o.Seed = p.queues.gate.Seed()
	return ratelimit.New(o, now)
}

func connectionLimits(cfg *config.Config) proxy.Limits {
	l := &cfg.Limits
	return proxy.Limits{
		Target:        int(l.MaxTarget),
		Headers:       int(l.MaxHeaders),
		HeaderTimeout: time.Duration(l.HeaderTimeout),
		IdleTimeout:   time.Duration(l.IdleTimeout),
		WriteTimeout:  time.Duration(l.WriteTimeout),
		Connections:   l.MaxConnections,
		PerClient:     l.MaxConnectionsPerClient,
	}
}

func routePolicy(r *config.Route) proxy.RoutePolicy {
	return proxy.RoutePolicy{
		Stream: r.Stream, Upgrade: r.Upgrade,
		MaxBody: int64(r.MaxBody), MaxAnswer: int64(r.MaxResponse),
		Timeout: time.Duration(r.Timeout), BodyTimeout: time.Duration(r.BodyTimeout),
	}
}

// unmatchedPolicy passes on whatever the API does that no route is about, of
// any size and for any time.
func unmatchedPolicy(cfg *config.Config) proxy.RoutePolicy {
	return proxy.RoutePolicy{
		Stream: true, Upgrade: true,
		Timeout: time.Duration(cfg.Origin.Timeout), BodyTimeout: time.Duration(cfg.Limits.BodyTimeout),
	}
}

func originURLs(cfg *config.Config) []string { return texts(cfg.Origin.URLs) }

func newOrigin(cfg *config.Config) (*proxy.Origin, error) {
	o := &cfg.Origin
	tlsConfig, err := originTLS(o.TLS)
	if err != nil {
		return nil, err
	}
	opts := proxy.OriginOptions{
		URLs:             originURLs(cfg),
		ConnectTimeout:   time.Duration(o.ConnectTimeout),
		MaxConnections:   o.MaxConnections,
		IdleTimeout:      time.Duration(o.IdleTimeout),
		MaxConnectionAge: time.Duration(o.MaxConnectionAge),
		TLS:              tlsConfig,
		EjectAfter:       o.Eject.Failures,
		EjectFor:         time.Duration(o.Eject.For),
	}
	origin, err := proxy.NewOrigin(opts)
	if err != nil {
		return nil, fmt.Errorf("origin.urls: %w", err)
	}
	return origin, nil
}
