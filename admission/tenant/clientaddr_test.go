package tenant

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func TestClientAddr(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	cases := []struct {
		name    string
		peer    string
		lines   []string
		trusted []netip.Prefix
		want    string
	}{
		{"no field", "192.0.2.1", nil, trusted, "192.0.2.1"},
		{"no field from a proxy", "10.0.0.1", nil, trusted, "10.0.0.1"},
		{"peer that is no proxy", "192.0.2.1", []string{"198.51.100.1"}, trusted, "192.0.2.1"},
		{"nobody is trusted", "10.0.0.1", []string{"198.51.100.1"}, nil, "10.0.0.1"},
		{"one proxy", "10.0.0.1", []string{"198.51.100.1"}, trusted, "198.51.100.1"},
		{"forged in front", "10.0.0.1", []string{"203.0.113.9, 198.51.100.1"}, trusted, "198.51.100.1"},
		{"forged proxy in front", "10.0.0.1", []string{"10.9.9.9, 198.51.100.1"}, trusted, "198.51.100.1"},
		{"forged line in front", "10.0.0.1", []string{"203.0.113.9", "198.51.100.1"}, trusted, "198.51.100.1"},
		{"chain of proxies", "10.0.0.1", []string{"198.51.100.1,10.0.0.3 ,\t10.0.0.2"}, trusted, "198.51.100.1"},
		{"chain over lines", "10.0.0.1", []string{"203.0.113.9, 198.51.100.1", "10.0.0.3", "10.0.0.2"}, trusted, "198.51.100.1"},
		{"all trusted", "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, trusted, "10.0.0.3"},
		{"port", "10.0.0.1", []string{"198.51.100.1:4711"}, trusted, "198.51.100.1"},
		{"IPv6", "fd00::1", []string{"2001:db8::1"}, trusted, "2001:db8::1"},
		{"IPv6 in brackets", "fd00::1", []string{"[2001:db8::1]"}, trusted, "2001:db8::1"},
		{"IPv6 with port", "fd00::1", []string{"[2001:db8::1]:4711"}, trusted, "2001:db8::1"},
		{"IPv4 in IPv6", "::ffff:10.0.0.1", []string{"::ffff:198.51.100.1"}, trusted, "198.51.100.1"},
		{"zone", "fd00::1%eth0", []string{"fe80::1%eth0"}, trusted, "fe80::1"},
		{"no address", "10.0.0.1", []string{"198.51.100.1, unknown"}, trusted, "10.0.0.1"},
		{"no address behind a proxy", "10.0.0.1", []string{"198.51.100.1, _hidden, 10.0.0.2"}, trusted, "10.0.0.2"},
		{"IPv4 in brackets", "10.0.0.1", []string{"[198.51.100.1]"}, trusted, "10.0.0.1"},
		{"half a bracket", "10.0.0.1", []string{"[2001:db8::1"}, trusted, "10.0.0.1"},
		{"quoted", "10.0.0.1", []string{`"198.51.100.1"`}, trusted, "10.0.0.1"},
		{"leading zeros", "10.0.0.1", []string{"198.051.100.1"}, trusted, "10.0.0.1"},
		{"empty elements", "10.0.0.1", []string{" , 198.51.100.1,, "}, trusted, "198.51.100.1"},
		{"empty line", "10.0.0.1", []string{"198.51.100.1", ""}, trusted, "198.51.100.1"},
	}
	for _, c := range cases {
		got := ClientAddr(netip.MustParseAddr(c.peer), c.lines, c.trusted)
		if got != netip.MustParseAddr(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := ClientAddr(netip.Addr{}, []string{"198.51.100.1"}, trusted); got.IsValid() {
		t.Errorf("no peer: %v, want no address", got)
	}
	lines := []string{"203.0.113.9, 198.51.100.1", "10.0.0.3, [fd00::7]:80"}
	peer := netip.MustParseAddr("10.0.0.1")
	if n := testing.AllocsPerRun(100, func() { ClientAddr(peer, lines, trusted) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Whoever writes the field cannot choose more than what stands at the place of
// its own address: what is written further left never matters, and the result
// is always an address that a trusted proxy vouches for.
func FuzzClientAddr(f *testing.F) {
	f.Add("10.0.0.1", "198.51.100.1", "203.0.113.9, 10.0.0.2")
	f.Add("192.0.2.1", "", "::1, [fd00::1]:80, unknown")
	f.Add("::ffff:10.0.0.1", "x,,", "fe80::1%25eth0")
	f.Fuzz(func(t *testing.T, peerText, left, right string) {
		peer, err := netip.ParseAddr(peerText)
		if err != nil {
			t.Skip()
		}
		trusted := prefixes("10.0.0.0/8", "fd00::/8")
		is := func(a netip.Addr) bool {
			return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
		}
		got := ClientAddr(peer, []string{right}, trusted)
		peer = peer.Unmap().WithZone("")
		if !is(peer) && got != peer {
			t.Fatalf("%v believed from %v, which is no proxy", got, peer)
		}
		if got.Zone() != "" || got.Is4In6() {
			t.Fatalf("%v is not plain", got)
		}
		// One field line and two mean the same.
		if joined, split := ClientAddr(peer, []string{left + "," + right}, trusted), ClientAddr(peer, []string{left, right}, trusted); joined != split {
			t.Fatalf("%v in one line, %v in two", joined, split)
		}
		// Past the first that is no proxy, nothing matters.
		if !is(got) {
			if more := ClientAddr(peer, []string{left, right}, trusted); more != got {
				t.Fatalf("%v became %v by writing %q in front", got, more, left)
			}
		}
		if got != peer && !strings.ContainsAny(right, ".:") {
			t.Fatalf("%v from %q", got, right)
		}
	})
}
