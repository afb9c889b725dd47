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
			switch authorization := strings.EqualFold(string(s.APIKey.Header), "Authorization"); {
			case authorization && s.APIKey.Scheme == SchemeNone:
				k.Problem(k.either(at+".api_key.scheme", at+".api_key.header"), "Authorization carries a scheme before the key; write scheme: bearer")
			case !authorization && s.APIKey.Scheme == SchemeBearer:
				k.Problem(at+".api_key.header", "the scheme bearer belongs to Authorization; remove header, or write scheme: none")
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
		if problem := nameProblem(key.Tenant); problem != "" {
			k.Problem(at+".tenant", "%s", problem)
		} else if reservedTenant(key.Tenant) {
			k.Problem(at+".tenant", "%s is a name for tenants that are known otherwise; choose one that is not anonymous and does not begin with ip: or cert:", k.Written(at+".tenant"))
		}
	}
	for _, name := range sortedKeys(k.Tenants.Overrides) {
		if problem := nameProblem(name); problem != "" {
			k.ProblemAtKey(strict.Key("tenants.overrides", name), "%s", problem)
		}
	}
}

// nameProblem says what is wrong with the name of a tenant; "" if nothing is.
func nameProblem(name string) string {
	invisible := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case name == "":
		return "the tenant's name is empty; write 1 to 128 visible ASCII characters, without spaces"
	case len(name) > 128:
		return "the tenant's name is too long; write at most 128 characters"
	case strings.ContainsFunc(name, invisible):
		return "the tenant's name holds a character that no request can send; write visible ASCII characters, without spaces"
	}
	return ""
}

// reservedTenant reports whether name is one that sources other than headers
// and API keys give.
func reservedTenant(name string) bool {
	return name == "anonymous" || strings.HasPrefix(name, "ip:") || strings.HasPrefix(name, "cert:")
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
