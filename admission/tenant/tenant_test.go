package tenant

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/admission"
)

// fields is a request's header.
type fields [][2]string

func (f fields) Get(name string) (value string, count int) {
	for _, field := range f {
		if strings.EqualFold(field[0], name) {
			if count == 0 {
				value = field[1]
			}
			count++
		}
	}
	return value, count
}

const (
	acmeKey  = "key-of-acme-0123456789abcdef"
	otherKey = "key-of-other-0123456789abcdef"
)

func keys() []Key {
	return []Key{
		{SHA256: sha256.Sum256([]byte(acmeKey)), Tenant: "acme"},
		{SHA256: sha256.Sum256([]byte(otherKey)), Tenant: "other"},
	}
}

func resolver(t testing.TB, o Options) *Resolver {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// every asks all kinds of sources.
func every() Options {
	return Options{From: []Source{
		{Kind: APIKey, Keys: keys()},
		{Kind: APIKey, Header: "X-Api-Key", Keys: []Key{{SHA256: sha256.Sum256([]byte("third")), Tenant: "third"}}},
		{Kind: Header, Header: "X-Tenant-Id"},
		{Kind: ClientCert},
		{Kind: Address},
	}}
}

func TestSourcesInOrder(t *testing.T) {
	addr := netip.MustParseAddr
	cases := []struct {
		name   string
		header fields
		client netip.Addr
		cert   string
		want   string
	}{
		{name: "nothing", want: Anonymous},
		{name: "bearer", header: fields{{"Authorization", "Bearer " + acmeKey}}, want: "acme"},
		{name: "scheme in another case", header: fields{{"authorization", "bEARER   " + otherKey + " "}}, want: "other"},
		{name: "key field", header: fields{{"X-Api-Key", "third"}}, want: "third"},
		{name: "bearer before key field", header: fields{{"X-Api-Key", "third"}, {"Authorization", "Bearer " + acmeKey}}, want: "acme"},
		{name: "header", header: fields{{"X-Tenant-Id", "blue"}}, want: "blue"},
		{name: "key before header", header: fields{{"X-Tenant-Id", "blue"}, {"X-Api-Key", "third"}}, want: "third"},
		{name: "another scheme is the origin's", header: fields{{"Authorization", "Basic " + acmeKey}, {"X-Tenant-Id", "blue"}}, want: "blue"},
		{name: "scheme that begins like bearer", header: fields{{"Authorization", "Bearers " + acmeKey}}, want: Anonymous},
		{name: "certificate", cert: "CN=worker, O=acme", client: addr("192.0.2.7"), want: "cert:CN=worker, O=acme"},
		{name: "IPv4", client: addr("192.0.2.7"), want: "ip:192.0.2.7"},
		{name: "IPv4 in IPv6", client: addr("::ffff:192.0.2.7"), want: "ip:192.0.2.7"},
		{name: "IPv6", client: addr("2001:db8:1:2:3:4:5:6"), want: "ip:2001:db8:1:2::/64"},
		{name: "IPv6 with zone", client: addr("fe80::1%eth0"), want: "ip:fe80::/64"},
		{name: "header before address", header: fields{{"X-Tenant-Id", "blue"}}, client: addr("192.0.2.7"), want: "blue"},
	}
	tenants := resolver(t, every())
	for _, c := range cases {
		r := admission.Request{Header: c.header, Client: c.client, ClientCert: c.cert}
		if f := tenants.Identify(&r); f.Is() || r.Tenant != c.want {
			t.Errorf("%s: tenant %q, refusal %+v, want %q", c.name, r.Tenant, f, c.want)
		}
	}
}

func TestAddressPrefixes(t *testing.T) {
	tenants := resolver(t, Options{From: []Source{{Kind: Address, IPv4: 24, IPv6: 128}}})
	for client, want := range map[string]string{
		"192.0.2.7":    "ip:192.0.2.0/24",
		"2001:db8::17": "ip:2001:db8::17",
	} {
		r := admission.Request{Client: netip.MustParseAddr(client), Header: fields{}}
		if tenants.Identify(&r); r.Tenant != want {
			t.Errorf("%s: tenant %q, want %q", client, r.Tenant, want)
		}
	}
}

// What is presented and wrong is refused, and never falls through to a source
// that would let the request in as somebody else.
func TestWrongIdentityIsRefused(t *testing.T) {
	cases := []struct {
		name      string
		header    fields
		reason    admission.Reason
		status    int
		challenge string
	}{
		{"unknown bearer", fields{{"Authorization", "Bearer nobody"}}, admission.TenantUnknown, 401, `Bearer realm="api", error="invalid_token"`},
		{"no bearer token", fields{{"Authorization", "Bearer"}}, admission.TenantUnknown, 401, `Bearer realm="api", error="invalid_token"`},
		{"key with something after it", fields{{"Authorization", "Bearer " + acmeKey + "x"}}, admission.TenantUnknown, 401, `Bearer realm="api", error="invalid_token"`},
		{"key that is too long", fields{{"Authorization", "Bearer " + strings.Repeat("k", MaxKey+1)}}, admission.TenantUnknown, 401, `Bearer realm="api", error="invalid_token"`},
		{"the key of another source", fields{{"X-Api-Key", acmeKey}}, admission.TenantUnknown, 401, `ApiKey realm="api"`},
		{"empty key", fields{{"X-Api-Key", ""}}, admission.TenantUnknown, 401, `ApiKey realm="api"`},
		{"unknown key beside a good name", fields{{"X-Api-Key", "?"}, {"X-Tenant-Id", "blue"}}, admission.TenantUnknown, 401, `ApiKey realm="api"`},
		{"hash in place of the key", fields{{"X-Api-Key", fmt.Sprintf("%x", sha256.Sum256([]byte("third")))}}, admission.TenantUnknown, 401, `ApiKey realm="api"`},
		{"two bearers", fields{{"Authorization", "Bearer " + acmeKey}, {"Authorization", "Bearer " + acmeKey}}, admission.BadRequest, 0, ""},
		{"two keys", fields{{"X-Api-Key", "third"}, {"x-api-key", "third"}}, admission.BadRequest, 0, ""},
		{"two names", fields{{"X-Tenant-Id", "blue"}, {"X-Tenant-Id", "blue"}}, admission.BadRequest, 0, ""},
		{"empty name", fields{{"X-Tenant-Id", ""}}, admission.TenantUnknown, 0, ""},
		{"long name", fields{{"X-Tenant-Id", strings.Repeat("n", MaxName+1)}}, admission.TenantUnknown, 0, ""},
		{"space", fields{{"X-Tenant-Id", "a b"}}, admission.TenantUnknown, 0, ""},
		{"control character", fields{{"X-Tenant-Id", "a\x01"}}, admission.TenantUnknown, 0, ""},
		{"delete", fields{{"X-Tenant-Id", "a\x7f"}}, admission.TenantUnknown, 0, ""},
		{"not ASCII", fields{{"X-Tenant-Id", "café"}}, admission.TenantUnknown, 0, ""},
		// Names that only another source can make.
		{"anonymous", fields{{"X-Tenant-Id", Anonymous}}, admission.TenantUnknown, 0, ""},
		{"address", fields{{"X-Tenant-Id", "ip:192.0.2.7"}}, admission.TenantUnknown, 0, ""},
		{"certificate", fields{{"X-Tenant-Id", "cert:worker"}}, admission.TenantUnknown, 0, ""},
		{"tenant with a key", fields{{"X-Tenant-Id", "acme"}}, admission.TenantUnknown, 0, ""},
		{"tenant with a key of another source", fields{{"X-Tenant-Id", "third"}}, admission.TenantUnknown, 0, ""},
	}
	tenants := resolver(t, every())
	for _, c := range cases {
		r := admission.Request{Header: c.header, Client: netip.MustParseAddr("192.0.2.7")}
		f := tenants.Identify(&r)
		if f.Reason != c.reason || f.Form.Status != c.status || f.Form.Challenge != c.challenge || r.Tenant != "" {
			t.Errorf("%s: tenant %q, refusal %+v %+v, want %v %d %q", c.name, r.Tenant, f, *f.Form, c.reason, c.status, c.challenge)
		}
		if f.Form.Detail == "" {
			t.Errorf("%s: the client is not told what to do", c.name)
		}
		for _, field := range c.header {
			if len(field[1]) > 8 && strings.Contains(fmt.Sprint(*f.Form), field[1]) {
				t.Errorf("%s: the refusal repeats what was presented: %+v", c.name, *f.Form)
			}
		}
	}
}

func TestMissingIdentity(t *testing.T) {
	cases := []struct {
		name string
		from []Source
		want admission.Refusal
	}{
		{"header", []Source{{Kind: Header, Header: "X-Tenant-Id"}}, admission.Refusal{
			Reason: admission.TenantMissing,
			Form:   &admission.Form{Detail: "Identify the tenant: send the tenant's name in X-Tenant-Id."},
		}},
		{"key", []Source{{Kind: APIKey, Keys: keys()}, {Kind: Header, Header: "X-Tenant-Id"}}, admission.Refusal{
			Reason: admission.TenantMissing, Form: &admission.Form{
				Status:    401,
				Challenge: `Bearer realm="orders api"`,
				Detail:    "Identify the tenant: send an API key in Authorization, as a bearer token, or the tenant's name in X-Tenant-Id.",
			},
		}},
		{"keys in two places", []Source{{Kind: APIKey, Keys: keys()}, {Kind: APIKey, Header: "X-Api-Key", Keys: keys()}}, admission.Refusal{
			Reason: admission.TenantMissing, Form: &admission.Form{
				Status:    401,
				Challenge: `Bearer realm="orders api", ApiKey realm="orders api"`,
				Detail:    "Identify the tenant: send an API key in Authorization, as a bearer token, or an API key in X-Api-Key.",
			},
		}},
		{"nothing to send", nil, admission.Refusal{Reason: admission.TenantMissing}},
	}
	for _, c := range cases {
		tenants := resolver(t, Options{From: c.from, Reject: true, Realm: "orders api"})
		r := admission.Request{Header: fields{}}
		if diff := cmp.Diff(c.want, tenants.Identify(&r)); diff != "" || r.Tenant != "" {
			t.Errorf("%s: tenant %q, refusal (-want +got):\n%s", c.name, r.Tenant, diff)
		}
	}
}

// No header value, whatever it is, gives a name that another source makes.
func TestHeaderNamesStayApart(t *testing.T) {
	tenants := resolver(t, every())
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`(ip:|cert:|anonymous|acme|other|third|IP:)?[!-~]{0,130}`),
		).Draw(t, "name")
		r := admission.Request{Header: fields{{"X-Tenant-Id", name}}}
		f := tenants.Identify(&r)
		others := name == "acme" || name == "other" || name == "third" || name == Anonymous ||
			strings.HasPrefix(name, "ip:") || strings.HasPrefix(name, "cert:")
		switch {
		case f.Is() && r.Tenant != "":
			t.Fatalf("refused, and tenant %q", r.Tenant)
		case !f.Is() && (r.Tenant != name || others || len(name) > MaxName):
			t.Fatalf("header %q made tenant %q", name, r.Tenant)
		}
	})
}

func TestIdentifyDoesNotAllocate(t *testing.T) {
	tenants := resolver(t, every())
	long := Options{From: []Source{{Kind: APIKey, Keys: []Key{{SHA256: sha256.Sum256([]byte(strings.Repeat("k", MaxKey))), Tenant: "long"}}}}}
	for _, c := range []struct {
		tenants *Resolver
		header  fields
	}{
		{tenants, fields{{"X-Tenant-Id", "blue"}}},
		{tenants, fields{{"Authorization", "Bearer " + acmeKey}}},
		{tenants, fields{{"Authorization", "Bearer nobody"}}},
		{tenants, fields{{"X-Tenant-Id", "acme"}}},
		{tenants, fields{}},
		{resolver(t, long), fields{{"Authorization", "Bearer " + strings.Repeat("k", MaxKey)}}},
	} {
		r := admission.Request{Header: c.header}
		if n := testing.AllocsPerRun(200, func() { c.tenants.Identify(&r) }); n != 0 {
			t.Errorf("%v: %v allocations, want none", c.header, n)
		}
	}
}

func TestBadOptions(t *testing.T) {
	twice := append(keys(), Key{SHA256: sha256.Sum256([]byte(acmeKey)), Tenant: "ip:1"})
	_, err := New(Options{Realm: `a"b`, From: []Source{
		{Kind: Header, Header: "X Tenant"},
		{Kind: Header},
		{Kind: APIKey, Header: "Kéy"},
		{Kind: APIKey, Keys: twice},
		{Kind: Address, IPv4: 33, IPv6: -1},
		{Kind: 77},
	}})
	want := `tenant: source 1: header "X Tenant" is not the name of a header field
source 2: header "" is not the name of a header field
source 3: header "Kéy" is not the name of a header field
source 3: no API keys, want at least one
source 4: tenant: name "ip:1" is reserved, want one that is not "anonymous" and does not begin with "ip:" or "cert:"
source 4: tenants "acme" and "ip:1" have the same API key
source 5: IPv4 prefix length is 33, want 1 to 32, or 0 for 32
source 5: IPv6 prefix length is -1, want 1 to 128, or 0 for 64
source 6: unknown kind 77
realm "a\"b", want visible ASCII characters and spaces without quotes and backslashes`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

func TestParseSHA256(t *testing.T) {
	want := sha256.Sum256([]byte(acmeKey))
	for _, text := range []string{fmt.Sprintf("%x", want), fmt.Sprintf("%X", want)} {
		if got, err := ParseSHA256(text); err != nil || got != want {
			t.Errorf("got %x, %v", got, err)
		}
	}
	for _, text := range []string{"", acmeKey, strings.Repeat("s", 64), fmt.Sprintf("%x0", want)} {
		_, err := ParseSHA256(text)
		if err == nil {
			t.Fatalf("%q: no error", text)
		}
		if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats what may be a key: %v", err)
		}
	}
}

// A name is visible if each of its bytes is, wherever it stands and whatever
// stands beside it.
func TestVisible(t *testing.T) {
	byByte := func(name string) bool {
		for _, c := range []byte(name) {
			if c < '!' || c > '~' {
				return false
			}
		}
		return len(name) > 0 && len(name) <= MaxName
	}
	for _, length := range []int{0, 1, 7, 8, 9, 16, 20, MaxName, MaxName + 1} {
		for _, rest := range []byte{'!', 'a', '~'} {
			name := bytes.Repeat([]byte{rest}, length)
			for at := range name {
				for c := range 256 {
					name[at] = byte(c)
					if got := visible(string(name)); got != byByte(string(name)) {
						t.Fatalf("%q: %v", name, got)
					}
				}
				name[at] = rest
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 24).Draw(t, "name"))
		if got := visible(name); got != byByte(name) {
			t.Fatalf("%q: %v", name, got)
		}
	})
}

func BenchmarkIdentify(b *testing.B) {
	tenants := resolver(b, every())
	for name, header := range map[string]fields{
		"header": {{"X-Tenant-Id", "blue"}},
		"key":    {{"Authorization", "Bearer " + acmeKey}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := admission.Request{Header: header}
			for b.Loop() {
				tenants.Identify(&r)
			}
		})
	}
}
