package tenant

import (
	"net/netip"
	"strings"
)

// ClientAddr returns the address of the client of a request that came from peer
// with these X-Forwarded-For field lines, in the order of the request.
//
// Each proxy appends the address that it was called from, so the list is to be
// believed from its right end and only as far as trusted proxies wrote it:
// ClientAddr returns the rightmost address that is not a trusted proxy, peer
// being the last of all. What stands left of that was written by whoever is
// there and counts for nothing. Where an entry is no address, the proxy that
// let it pass is the last that can be believed, and its address is returned;
// where all are trusted, the leftmost.
//
// Entries may carry a port. Addresses are returned without zone, and IPv4 ones
// as such. It does not allocate unless an entry is no address.
func ClientAddr(peer netip.Addr, forwardedFor []string, trusted []netip.Prefix) netip.Addr {
	client := plain(peer)
	for i := len(forwardedFor) - 1; i >= 0; i-- {
		for rest, more := forwardedFor[i], true; more; {
			if !contains(trusted, client) {
				return client
			}
			var entry string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, entry = rest[:comma], rest[comma+1:]
			} else {
				entry, more = rest, false
			}
			entry = strings.Trim(entry, " \t")
			if entry == "" {
				continue // RFC 9110 section 5.6.1: empty elements are ignored
			}
			addr, ok := parseHop(entry)
			if !ok {
				return client
			}
			client = addr
		}
	}
	return client
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// parseHop reads an address with or without a port.
func parseHop(s string) (netip.Addr, bool) {
	bracket := strings.HasPrefix(s, "[")
	switch {
	case bracket && strings.HasSuffix(s, "]"):
		s = s[1 : len(s)-1]
		if strings.IndexByte(s, ':') < 0 {
			return netip.Addr{}, false
		}
	case bracket, strings.Count(s, ":") == 1:
		a, err := netip.ParseAddrPort(s)
		return plain(a.Addr()), err == nil
	}
	a, err := netip.ParseAddr(s)
	return plain(a), err == nil
}

func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
