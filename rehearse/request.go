package rehearse

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/admission"
	"sluice/admission/tenant"
	"sluice/config"
)

// Request is one to be sent. Only Method and Path are required.
type Request struct {
	Method string
	Path   string // raw, with the query behind a question mark if it has one
	Header Fields
	Body   string // counts where a route compares repetitions
	// Client is the address of whoever connects; the zero value is
	// [DefaultClient].
	Client netip.Addr
	// ClientCert is the name in the client's verified certificate; "" without one.
	ClientCert string
	// Tenant on whose behalf it comes. It is sent in the header field that names
	// tenants, if the policy has one. Where tenants are known by key, address or
	// certificate, it stands for their having been identified. "": whatever the
	// rest of the request says.
	Tenant string
	// Class that the client asks for in the policy's class header; "" none.
	Class string
	// Identified is the tenant as which it was identified by what cannot be shown
	// again, such as an API key; "": whatever the request says.
	Identified string
	// Lot and Again are what was drawn for it at its queue; 0: the stage draws.
	Lot, Again admission.Lot
}

// DefaultClient is the address of clients that are not given one: from a block
// for documentation (RFC 5737).
var DefaultClient = netip.MustParseAddr("192.0.2.1")

// Fields are header fields as sent, in order.
type Fields []Field

// Field is one header field.
type Field struct{ Name, Value string }

// Get implements [admission.Header].
func (f Fields) Get(name string) (value string, count int) {
	for _, field := range f {
		if strings.EqualFold(field.Name, name) {
			if count == 0 {
				value = field.Value
			}
			count++
		}
	}
	return value, count
}

// PeekAll returns the values of the fields with that name, in any letter case:
// what fingerprints of requests are made from.
func (f Fields) PeekAll(name string) (values [][]byte) {
	for _, field := range f {
		if strings.EqualFold(field.Name, name) {
			values = append(values, []byte(field.Value))
		}
	}
	return values
}

// facts turns a request into what the transport would have made of it. direct
// is the tenant that no part of the request can name, "" none.
func (q *Request) facts(cfg *config.Config, now time.Time) (r *admission.Request, direct string) {
	r = &admission.Request{Class: admission.NoClass, Method: q.Method, ClientCert: q.ClientCert, Received: now}
	r.Path, r.Query, _ = strings.Cut(q.Path, "?")
	header := slices.Clone(q.Header)
	if q.Class != "" && cfg.ClassHeader != nil {
		header = append(header, Field{string(cfg.ClassHeader.Name), q.Class})
	}
	if q.Identified != "" {
		direct = q.Identified
	} else if q.Tenant != "" {
		if name := tenantField(cfg, q.Tenant); name == "" {
			direct = q.Tenant
		} else if _, sent := header.Get(name); sent == 0 {
			header = append(header, Field{name, q.Tenant})
		}
	}
	r.Header = header
	r.Client = q.Client
	if !r.Client.IsValid() {
		r.Client = DefaultClient
	}
	var trusted []netip.Prefix
	for _, n := range cfg.TrustedProxies {
		trusted = append(trusted, n.Prefix)
	}
	if slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(r.Client) }) {
		var chain []string
		for _, v := range header.PeekAll("X-Forwarded-For") {
			chain = append(chain, string(v))
		}
		r.Client = tenant.ClientAddr(r.Client, chain, trusted)
	}
	return r, direct
}

// tenantField is the header field in which a tenant can be named; "" none. What
// has an API key can be named by that alone.
func tenantField(cfg *config.Config, name string) string {
	if name == tenant.Anonymous || slices.ContainsFunc(cfg.Tenants.APIKeys, func(k config.APIKey) bool { return k.Tenant == name }) {
		return ""
	}
	for _, s := range cfg.Tenants.From {
		if s.Header != "" {
			return string(s.Header)
		}
	}
	return ""
}

// identified is the policy's own way to find tenants, but for requests of which
// the tenant is given.
type identified struct {
	admission.Identifier
	as string // "" not given
}

func (i *identified) Identify(r *admission.Request) admission.Refusal {
	if i.as == "" {
		return i.Identifier.Identify(r)
	}
	r.Tenant = i.as
	return admission.Refusal{}
}
