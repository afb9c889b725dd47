package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sluice/config/strict"
)

func (k checker) checkTenantSources() {
	t := k.Tenants
	keys := false
	for i, s := range t.From {
		at := strict.Index("tenants.from", i)
		if s.APIKey != nil {
			keys = true
			if strings.EqualFold(string(s.APIKey.Header), "Authorization") && s.APIKey.Scheme == SchemeNone {
				k.Problem(k.either(at+".api_key.scheme", at+".api_key.header"), "Authorization carries a scheme before the key; add scheme: bearer")
			}
		}
		if s.ClientCert != "" {
			if k.TLS == nil || k.TLS.ClientAuth == ClientAuthNone {
				k.Problem(at+".client_cert", "no client is asked for a certificate; add tls with client_ca and client_auth: request or require")
			}
		}
		for j, other := range t.From[:i] {
			if sameSource(s, other) {
				k.Problem(at, "this source stands in the list already, as item %d; keep one of them", j+1)
				break
			}
		}
	}
	if keys && len(t.APIKeys) == 0 && !k.Has("tenants.api_keys") && !k.FailedWithin("tenants.from") {
		k.Problem("tenants.from", "tenants are known by API key, but there are none, so every request with a key would be refused; add tenants.api_keys")
	}
}

// sameSource reports whether two sources read the same place.
func sameSource(a, b TenantSource) bool {
	switch {
	case a.Header != "":
		return strings.EqualFold(string(a.Header), string(b.Header))
	case a.APIKey != nil:
		return b.APIKey != nil && strings.EqualFold(string(a.APIKey.Header), string(b.APIKey.Header)) && a.APIKey.Scheme == b.APIKey.Scheme
	case a.ClientIP != nil:
		return b.ClientIP != nil
	case a.ClientCert != "":
		return a.ClientCert == b.ClientCert
	}
	return false
}

// hashOfNothing is the SHA-256 of the empty text.
const hashOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (k checker) checkAPIKeys() {
	first := map[string]int{}
	for i, key := range k.Tenants.APIKeys {
		at := strict.Index("tenants.api_keys", i)
		hash := key.SHA256.Reveal()
		if hash == "" {
			continue
		}
		if hash == hashOfNothing {
			k.Problem(at+".sha256", `this is the hash of an empty key; make it by: printf %%s "$KEY" | sha256sum`)
		}
		if j, twice := first[hash]; twice {
			k.Problem(at+".sha256", "this key stands in the list already, in line %d; a key belongs to one tenant", k.Line(strict.Index("tenants.api_keys", j)))
			continue
		}
		first[hash] = i
		k.tenantName(at+".tenant", key.Tenant)
	}
	for _, name := range sortedKeys(k.Tenants.Overrides) {
		k.tenantName(strict.Key("tenants.overrides", name), name)
	}
}

// tenantName refuses names that could not be sent to the origin in a header
// field.
func (k checker) tenantName(path, name string) {
	if len(name) > 128 {
		k.Problem(path, "the tenant's name is too long; write at most 128 bytes")
		return
	}
	for _, c := range []byte(name) {
		if c < ' ' || c == 0x7f {
			k.Problem(path, "the tenant's name holds a control character; write visible characters only")
			return
		}
	}
	if name == "" || strings.TrimSpace(name) != name {
		k.Problem(path, "the tenant's name is empty or has spaces around it, which no request can have; write it without")
	}
}

// spender is a bucket and the most that one request takes from it.
type spender struct {
	cost  int64
	route int // index of the route that costs most; -1 for none
}

// checkBuckets refuses buckets that a request could never be let through by,
// because it costs more than a full bucket holds.
func (k checker) checkBuckets() {
	shared := spender{1, -1}
	for i, r := range k.Routes {
		most := r.Cost
		if r.CostHeader != nil {
			most = max(most, r.CostHeader.Max)
		}
		at := strict.Index("routes", i)
		if r.Limit != nil {
			if r.Limit.Burst < most && r.Limit.Burst > 0 {
				k.Problem(at+".limit.burst", "%d is less than one request can cost on this route (%d), so that it could never pass; write %d or more", r.Limit.Burst, most, most)
			}
			continue
		}
		if most > shared.cost {
			shared = spender{most, i}
		}
	}
	if shared.route < 0 {
		return
	}
	at := strict.Index("routes", shared.route)
	report := func(path string, burst int64) {
		k.Problem(path, "%d is less than one request can cost on %s (%d, line %d), so that it could never pass; write %d or more",
			burst, at, shared.cost, k.Line(at), shared.cost)
	}
	if l := k.Tenants.Limit; l != nil && l.Burst > 0 && l.Burst < shared.cost {
		report("tenants.limit.burst", l.Burst)
	}
	for _, name := range sortedKeys(k.Tenants.Overrides) {
		at := strict.Key(strict.Key("tenants.overrides", name), "burst")
		if o := k.Tenants.Overrides[name]; k.Has(at) && o.Burst > 0 && o.Burst < shared.cost {
			report(at, o.Burst)
		}
	}
}

func (k checker) checkOverrides() {
	if k.Tenants.Limit != nil || k.Failed("tenants.limit") {
		return
	}
	for _, name := range sortedKeys(k.Tenants.Overrides) {
		at := strict.Key("tenants.overrides", name)
		rate, burst := k.Has(at+".rate"), k.Has(at+".burst")
		switch {
		case rate && !burst:
			k.Problem(at+".rate", "there is a rate without a burst, and no tenants.limit to take it from; add burst")
		case burst && !rate:
			k.Problem(at+".burst", "there is a burst without a rate, and no tenants.limit to take it from; add rate")
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
