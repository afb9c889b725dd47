package tenant

import (
	"fmt"
	"net/netip"
	"strings"

	"sluice/admission"
)

// Resolver finds a request's tenant. It implements admission.Identifier, is
// immutable and safe for concurrent use.
type Resolver struct {
	sources []source
	keyed   map[string]bool // tenants that need a key
	missing admission.Refusal
	reject  bool
}

var _ admission.Identifier = (*Resolver)(nil)

// source is a Source made ready, with the answers it may have to give.
type source struct {
	Source
	keys     keyring
	repeated admission.Refusal
	unknown  admission.Refusal
}

// New makes a resolver.
func New(o Options) (*Resolver, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	realm := o.Realm
	if realm == "" {
		realm = "api"
	}
	t := &Resolver{keyed: make(map[string]bool), reject: o.Reject}
	missing := new(admission.Form)
	t.missing = admission.Refusal{Reason: admission.TenantMissing}
	var ways, challenges []string
	for _, s := range o.From {
		made := source{Source: s}
		field := s.Header
		unknown := new(admission.Form)
		made.unknown = admission.Refusal{Reason: admission.TenantUnknown, Form: unknown}
		switch s.Kind {
		case Header:
			ways = append(ways, "the tenant's name in "+s.Header)
			unknown.Detail = fmt.Sprintf("The name in %s is not one that a tenant can have here.", field)
		case APIKey:
			scheme, way := "ApiKey", "an API key in "+s.Header
			if field == "" {
				field, scheme, way = "Authorization", "Bearer", "an API key in Authorization, as a bearer token"
			}
			ways = append(ways, way)
			challenge := fmt.Sprintf("%s realm=\"%s\"", scheme, realm)
			challenges = append(challenges, challenge)
			*unknown = admission.Form{Status: 401, Detail: "The API key is not known here.", Challenge: challenge}
			if scheme == "Bearer" { // RFC 6750 section 3.1
				unknown.Challenge += `, error="invalid_token"`
			}
			made.keys = newKeyring(s.Keys)
			for _, k := range s.Keys {
				t.keyed[k.Tenant] = true
			}
		case Address:
			if s.IPv4 == 0 {
				made.IPv4 = 32
			}
			if s.IPv6 == 0 {
				made.IPv6 = 64
			}
		case ClientCert:
			ways = append(ways, "a client certificate")
		}
		made.repeated = admission.Refusal{
			Reason: admission.BadRequest,
			Form:   &admission.Form{Detail: fmt.Sprintf("The field %s may be sent only once.", field)},
		}
		t.sources = append(t.sources, made)
	}
	if len(challenges) > 0 {
		missing.Status, missing.Challenge = 401, strings.Join(challenges, ", ")
	}
	if len(ways) > 0 {
		t.missing.Form = missing
		missing.Detail = "Identify the tenant: send " + strings.Join(ways, ", or ") + "."
	}
	return t, nil
}

// Identify sets r.Tenant, or refuses r. It does not allocate where the tenant
// comes from a header or an API key.
func (t *Resolver) Identify(r *admission.Request) admission.Refusal {
	for i := range t.sources {
		s := &t.sources[i]
		var name string
		var refusal admission.Refusal
		switch s.Kind {
		case Header:
			name, refusal = s.header(r, t.keyed)
		case APIKey:
			name, refusal = s.key(r)
		case ClientCert:
			if r.ClientCert != "" {
				name = certPrefix + r.ClientCert
			}
		case Address:
			name = s.address(r.Client)
		}
		if refusal.Is() {
			return refusal
		}
		if name != "" {
			r.Tenant = name
			return admission.Refusal{}
		}
	}
	if t.reject {
		return t.missing
	}
	r.Tenant = Anonymous
	return admission.Refusal{}
}

// header reads a name that a trusted party has written. An empty field is a
// wrong name, not a missing one: it is what a broken template writes.
func (s *source) header(r *admission.Request, keyed map[string]bool) (string, admission.Refusal) {
	name, count := r.Header.Get(s.Header)
	switch {
	case count == 0:
		return "", admission.Refusal{}
	case count > 1:
		return "", s.repeated
	case !visible(name) || reserved(name) || len(keyed) > 0 && keyed[name]:
		return "", s.unknown
	}
	return name, admission.Refusal{}
}

// key reads an API key. An Authorization field of another scheme is none of
// ours: the origin may want it.
func (s *source) key(r *admission.Request) (string, admission.Refusal) {
	field := s.Header
	if field == "" {
		field = "Authorization"
	}
	key, count := r.Header.Get(field)
	switch {
	case count == 0:
		return "", admission.Refusal{}
	case count > 1:
		return "", s.repeated
	}
	if s.Header == "" {
		var bearer bool
		if key, bearer = bearerToken(key); !bearer {
			return "", admission.Refusal{}
		}
	}
	if name, known := s.keys.tenant(key); known {
		return name, admission.Refusal{}
	}
	return "", s.unknown
}

// bearerToken returns the credentials of an Authorization field, and whether
// its scheme is Bearer (RFC 6750 section 2.1).
func bearerToken(value string) (string, bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.Trim(rest, " "), true
}

// address names the network that an address is in; "" without an address.
func (s *source) address(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	addr = addr.Unmap().WithZone("")
	bits := s.IPv6
	if addr.Is4() {
		bits = s.IPv4
	}
	var buf [64]byte
	name := append(buf[:0], addressPrefix...)
	if bits == addr.BitLen() {
		return string(addr.AppendTo(name))
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return "" // bits were checked
	}
	return string(prefix.AppendTo(name))
}
