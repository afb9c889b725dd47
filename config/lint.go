package config

import (
	"reflect"
	"slices"
	"strings"

	"sluice/config/strict"
)

// lint warns of what is allowed but probably not meant. It runs on configs
// without problems only.
func lint(c *Config, doc *strict.Document) {
	k := checker{c, doc}
	k.lintExposure()
	k.lintTenants()
	k.lintStore()
	k.lintQueues()
	k.lintUnreachable()
	k.lintUseless()
}

// lintExposure warns of what strangers could reach or pretend.
func (k checker) lintExposure() {
	if a := k.Admin; !a.Listen.Loopback() && a.TLS == nil {
		k.Warn("admin.token", "it crosses the network in clear text; give this listener a certificate as admin.tls, or close its port to all but the machine's own proxy")
	}
	if !k.Admin.Write {
		k.lintPush()
	}
	for i, s := range k.Tenants.From {
		if s.Header != "" && !k.Config.Listen.Loopback() && (k.TLS == nil || k.TLS.ClientAuth != ClientAuthRequire) {
			k.Warn(strict.Index("tenants.from", i)+".header", "whoever reaches %s can name any tenant in %s; let only a proxy that sets it reach this address, or use api_key or client_cert", k.Config.Listen, s.Header)
		}
	}
	for i, n := range k.TrustedProxies {
		if n.Bits() == 0 {
			k.Warn(strict.Index("trusted_proxies", i), "%s trusts everybody to say which address a request came from; write the addresses of your own proxies", n.Prefix)
		}
	}
	if t := k.Origin.TLS; t != nil && t.InsecureSkipVerify {
		k.Warn("origin.tls.insecure_skip_verify", "whoever stands between gateway and origin can read and change everything; give the origin's authority as ca instead")
	}
}

// lintPush warns of signals that nobody can post.
func (k checker) lintPush() {
	for _, name := range sortedKeys(k.Queues) {
		for i, s := range k.Queues[name].Signals {
			if s.Push != nil && s.Push.Header == "" {
				at := strict.Index(strict.Key("queues", string(name))+".signals", i)
				k.Warn(at+".push", "no reading can be posted, since the private listener is read-only; set admin.write: true, or name a header field of the origin's answers")
			}
		}
	}
}

func (k checker) lintTenants() {
	t := k.Tenants
	onlyKeys := true
	for i, s := range t.From {
		if s.APIKey == nil {
			onlyKeys = false
		}
		if s.ClientIP != nil && i < len(t.From)-1 {
			k.Warn(strict.Index("tenants.from", i+1), "never read: every request has a client_ip, which stands before it; move client_ip to the end")
		}
		if s.ClientIP != nil && t.Missing == Reject {
			k.Warn("tenants.missing", "never happens: every request has a client_ip; remove client_ip from tenants.from, or this key")
		}
	}
	sources := func(has func(TenantSource) bool) bool { return slices.ContainsFunc(t.From, has) }
	if len(t.APIKeys) > 0 && !sources(func(s TenantSource) bool { return s.APIKey != nil }) {
		k.Warn("tenants.api_keys", "never read: no source in tenants.from is an api_key; add {api_key: {}} there")
	}
	if k.TLS != nil && k.TLS.ClientAuth == ClientAuthRequest && !sources(func(s TenantSource) bool { return s.ClientCert != "" }) {
		k.Warn("tls.client_auth", "clients are asked for a certificate that nothing reads; write require, or add {client_cert: subject_cn} to tenants.from")
	}
	names := map[string]bool{"anonymous": t.Missing == Anonymous}
	for _, key := range t.APIKeys {
		names[key.Tenant] = true
	}
	for _, name := range sortedKeys(t.Overrides) {
		at := strict.Key("tenants.overrides", name)
		if onlyKeys && !names[name] {
			k.Warn(at, "no API key stands for this tenant, so that it never occurs; add its key, or remove it")
		}
		if k.ClassHeader == nil && k.Has(at+".max_class") {
			k.Warn(at+".max_class", "has no effect: clients cannot name a class, since there is no class_header; add one, or remove this key")
		}
	}
	if len(t.Overrides) > t.MaxTracked {
		k.Warn("tenants.max_tracked", "fewer tenants are told apart (%d) than overrides name (%d); write %d or more", t.MaxTracked, len(t.Overrides), len(t.Overrides))
	}
}

// lintUnreachable warns of routes and rules that an earlier one leaves nothing
// to match.
func (k checker) lintUnreachable() {
	const message = "%s is never reached: %s (line %d) matches everything that it matches; put it above, or remove it"
	// A pattern covers only paths that begin with its text up to its first *, so
	// that few earlier routes need a look, however many there are.
	byPrefix := map[string][]int{}
	for j := range k.Routes {
		later := &k.Routes[j]
		if i := k.coveringRoute(byPrefix, later.Match); i >= 0 {
			k.Warn(strict.Index("routes", j), "route "+message, later.ID, k.Routes[i].ID, k.Line(strict.Index("routes", i)))
		}
		prefix, _, _ := strings.Cut(string(later.Match.Path), "*")
		prefix = strings.TrimSuffix(prefix, "/")
		byPrefix[prefix] = append(byPrefix[prefix], j)
	}
	for j := range k.Priority {
		later := &k.Priority[j]
		for i := range k.Priority[:j] {
			if earlier := &k.Priority[i]; earlier.When.covers(&later.When) {
				k.Warn(strict.Index("priority", j), "rule "+message, later.ID, earlier.ID, k.Line(strict.Index("priority", i)))
				break
			}
		}
	}
}

// coveringRoute returns the first route, of those by their literal beginning in
// byPrefix, that matches everything that m matches, or -1.
func (k checker) coveringRoute(byPrefix map[string][]int, m Match) int {
	first := -1
	for path := strings.TrimSuffix(string(m.Path), "/"); ; path = path[:max(strings.LastIndexByte(path, '/'), 0)] {
		for _, i := range byPrefix[path] {
			if first >= 0 && i > first {
				break
			}
			if k.Routes[i].Match.covers(m) {
				first = i
				break
			}
		}
		if path == "" {
			return first
		}
	}
}

// lintUseless warns of settings without effect.
func (k checker) lintUseless() {
	if k.Limits.MaxConnectionsPerClient > k.Limits.MaxConnections {
		k.Warn("limits.max_connections_per_client", "is never reached: max_connections is %d; write less, or 0 for no limit", k.Limits.MaxConnections)
	}
	if k.Limits.MaxTarget > k.Limits.MaxHeaders {
		k.Warn("limits.max_target", "is larger than the whole head of a request may be (max_headers, %s); write less", k.Limits.MaxHeaders)
	}
	if k.Origin.TLS != nil && !slices.ContainsFunc(k.Origin.URLs, OriginURL.TLS) {
		k.Warn("origin.tls", "has no effect: no address of the origin begins with https://")
	}
	if k.Origin.MaxConnectionAge < k.Origin.IdleTimeout && k.Has("origin.idle_timeout") {
		k.Warn("origin.idle_timeout", "is never reached: connections are replaced at an age of %s (max_connection_age)", k.Origin.MaxConnectionAge)
	}
	for i, r := range k.Routes {
		if r.Stream && k.Has(strict.Index("routes", i)+".max_response") {
			k.Warn(strict.Index("routes", i)+".max_response", "has no effect: the route streams, so that no answer is held in memory")
		}
	}
}

// covers reports whether m certainly matches every request that other matches.
func (m Match) covers(other Match) bool {
	return coversMethods(m.Methods, other.Methods) && m.Path.covers(other.Path)
}

// coversMethods compares lists of methods, in which none means any.
func coversMethods(a, b []Method) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(m Method) bool { return !slices.Contains(a, m) })
}

// covers reports whether c certainly matches every request that other matches.
// It may miss that where any, all and not are involved, and never claims it
// wrongly.
func (c *Condition) covers(other *Condition) bool {
	if !coversMethods(c.Methods, other.Methods) || !c.Path.covers(other.Path) {
		return false
	}
	if c.Any != nil && !reflect.DeepEqual(c.Any, other.Any) ||
		c.All != nil && !reflect.DeepEqual(c.All, other.All) ||
		c.Not != nil && !reflect.DeepEqual(c.Not, other.Not) {
		return false
	}
	for name, value := range c.Header {
		if !headerCovered(name, value, other.Header) {
			return false
		}
	}
	if len(c.Tenants) == 0 {
		return true
	}
	return len(other.Tenants) > 0 && !slices.ContainsFunc(other.Tenants, func(t Glob) bool {
		return !slices.ContainsFunc(c.Tenants, func(g Glob) bool { return g.covers(t) })
	})
}

// headerCovered reports whether requests with these fields certainly have the
// field name with such a value.
func headerCovered(name HeaderName, value Glob, fields map[HeaderName]Glob) bool {
	if v, ok := fields[name]; ok {
		return value.covers(v)
	}
	for n, v := range fields {
		if strings.EqualFold(string(n), string(name)) {
			return value.covers(v)
		}
	}
	return false
}
