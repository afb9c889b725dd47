package config

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"sluice/config/strict"
)

// checker holds what the checks below share: a config that has been decoded as
// far as it could be, and the document to complain to.
type checker struct {
	*Config
	*strict.Document
}

// Line is where path stands, by the document: the config has no lines yet.
func (k checker) Line(path string) int { return k.Document.Line(path) }

// check reports what no single value shows to be wrong: names that do not
// exist, or exist twice, and settings that contradict each other.
func check(c *Config, doc *strict.Document) {
	k := checker{c, doc}
	k.checkListeners()
	k.checkTLS()
	k.checkOrigin()
	k.checkStore()
	k.checkTenantSources()
	k.checkAPIKeys()
	k.checkOverrides()
	k.checkClasses()
	k.checkPriority()
	k.checkRoutes()
	k.checkQueues()
	k.checkBuckets()
	k.checkDecisionLog()
}

func (k checker) checkListeners() {
	if k.Listen == k.Admin.Listen && k.Listen.Port() != 0 {
		k.Problem("admin.listen", "%s is the address for clients too (listen); give the private listener a port of its own", k.Listen)
	}
	if a := k.Admin; a.Listen != "" && !a.Listen.Loopback() && !a.guarded() && !k.FailedWithin("admin") {
		k.Problem("admin.listen", "%s can be reached from other machines, and anybody there could read what is decided about whom; set admin.token, or client_ca in admin.tls, or listen on 127.0.0.1", a.Listen)
	}
}

// guarded tells whether callers have to show who they are.
func (a *Admin) guarded() bool { return a.Token.Reveal() != "" || a.TLS != nil && a.TLS.ClientCA != "" }

func (k checker) checkTLS() {
	if t := k.TLS; t != nil {
		if t.ClientAuth != ClientAuthNone && t.ClientAuth != "" && t.ClientCA == "" && !k.Failed("tls.client_ca") {
			k.Problem("tls.client_auth", "%s needs authorities to check client certificates by; add client_ca", t.ClientAuth)
		}
		if t.ClientAuth == ClientAuthNone && t.ClientCA != "" {
			k.Problem("tls.client_ca", "no client is asked for a certificate, since client_auth is none; write client_auth: request or require")
		}
	}
	if t := k.Origin.TLS; t != nil {
		k.pair("origin.tls", "cert", t.Cert, "key", t.Key)
	}
}

// pair wants both or none of two keys of a section.
func (k checker) pair(section, a string, av Path, b string, bv Path) {
	switch {
	case av != "" && bv == "" && !k.Has(section+"."+b):
		k.Problem(section+"."+a, "there is no %s to this %s; add %s", b, a, b)
	case bv != "" && av == "" && !k.Has(section+"."+a):
		k.Problem(section+"."+b, "there is no %s to this %s; add %s", a, b, a)
	}
}

func (k checker) checkOrigin() {
	o := k.Origin
	seen := map[OriginURL]int{}
	for i, u := range o.URLs {
		at := strict.Index("origin.urls", i)
		if u == "" {
			continue
		}
		if first, twice := seen[u]; twice {
			k.Problem(at, "%s stands in the list already, as item %d; keep one of them", u, first+1)
			continue
		}
		seen[u] = i
		for _, l := range []struct {
			path    string
			address Address
		}{{"listen", k.Listen}, {"admin.listen", k.Admin.Listen}} {
			if sameEndpoint(l.address, u.Address()) {
				k.Problem(at, "%s is where this gateway listens itself (%s); write the address of the API behind it", u, l.path)
			}
		}
	}
	if o.ConnectTimeout > o.Timeout && !k.Failed("origin.timeout") {
		k.Problem(k.either("origin.connect_timeout", "origin.timeout"), "connect_timeout (%s) is longer than timeout (%s), which bounds the whole exchange; shorten connect_timeout or lengthen timeout", o.ConnectTimeout, o.Timeout)
	}
	if h := o.Health; h != nil && h.Timeout > h.Every && !k.Failed("origin.health.every") {
		k.Problem(k.either("origin.health.timeout", "origin.health.every"), "timeout (%s) is longer than every (%s), so that checks would overlap; write a timeout below every", h.Timeout, h.Every)
	}
}

// either returns the first of two paths that the file writes.
func (k checker) either(path, other string) string {
	if !k.Has(path) && k.Has(other) {
		return other
	}
	return path
}

// sameEndpoint reports whether connecting to address reaches the listener.
func sameEndpoint(listen Address, address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || fmt.Sprint(listen.Port()) != port || listen.Port() == 0 {
		return false
	}
	listenHost, _, _ := net.SplitHostPort(string(listen))
	loopback := func(a string) bool { return Address(net.JoinHostPort(a, "0")).Loopback() }
	everywhere := listenHost == "" || listenHost == "0.0.0.0" || listenHost == "::"
	return host == listenHost || loopback(host) && (loopback(listenHost) || everywhere)
}

// className checks a reference to a class.
func (k checker) className(path string, name ID) {
	if name == "" || k.FailedWithin("classes") {
		return
	}
	k.known(k.Problem, path, k.Written(path), "class", string(name), k.classNames())
}

// known reports a name, as it is written, that is none of names, and what it may
// be a slip of.
func (k checker) known(report func(path, format string, args ...any), path, written, what, name string, names []string) {
	if slices.Contains(names, name) {
		return
	}
	switch near := strict.Nearest(name, names); {
	case near != "":
		report(path, "%s names no %s; did you mean %s?", written, what, near)
	case len(names) == 0:
		report(path, "%s names no %s; none is defined", written, what)
	default:
		report(path, "%s names no %s; write one of %s", written, what, strings.Join(names, ", "))
	}
}

func (k checker) classNames() []string {
	names := make([]string, len(k.Classes))
	for i, c := range k.Classes {
		names[i] = string(c.Name)
	}
	return names
}

// unique reports names of a list that stand there twice.
func (k checker) unique(list, key, what string, names []ID) {
	first := map[ID]int{}
	for i, name := range names {
		at := strict.Key(strict.Index(list, i), key)
		if name == "" || k.Failed(at) {
			continue
		}
		if j, twice := first[name]; twice {
			k.Problem(at, "there is a %s %s already, in line %d; give each its own %s", what, name, k.Line(strict.Index(list, j)), key)
			continue
		}
		first[name] = i
	}
}

func (k checker) checkClasses() {
	names := make([]ID, len(k.Classes))
	for i, c := range k.Classes {
		names[i] = c.Name
	}
	k.unique("classes", "name", "class", names)
	if h := k.ClassHeader; h != nil {
		k.className("class_header.ceiling", h.Ceiling)
	}
	for _, name := range sortedKeys(k.Tenants.Overrides) {
		at := strict.Key(strict.Key("tenants.overrides", name), "max_class")
		if k.Has(at) {
			k.className(at, k.Tenants.Overrides[name].MaxClass)
		}
	}
}
