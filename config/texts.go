package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/config/strict"
	"sluice/config/value"
)

// Texts with a syntax of their own. Each UnmarshalText says what would be
// right; each Grammar gives the part of the rule that a pattern can express.

// ID is the stable name of a route, rule or class: lower-case letters and
// digits, in words joined by hyphens, at most 64 characters.
type ID string

const idPattern = `^[a-z][a-z0-9]*(-[a-z0-9]+)*$`

var (
	idSyntax = regexp.MustCompile(idPattern)
	notInID  = regexp.MustCompile(`[^a-z0-9]+`)
)

func (id *ID) UnmarshalText(text []byte) error {
	s := string(text)
	switch {
	case len(s) > 64:
		return fmt.Errorf("%s is too long; write at most 64 characters", strict.Quote(s))
	case !idSyntax.MatchString(s):
		better := strings.Trim(notInID.ReplaceAllString(strings.ToLower(s), "-"), "-")
		if !idSyntax.MatchString(better) {
			better = "create-order"
		}
		return fmt.Errorf("%s is not a name; write lower-case words joined by hyphens, such as %s", strict.Quote(s), better)
	}
	*id = ID(s)
	return nil
}

func (ID) Grammar() (what, pattern string) {
	return "a name in lower-case words joined by hyphens", idPattern
}

// Address is a host and port to listen on; the host may be empty, which means
// every interface.
type Address string

func (a *Address) UnmarshalText(text []byte) error {
	s := string(text)
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		return fmt.Errorf("%s begins with a scheme; write host:port, such as %s", strict.Quote(s), orExample(strings.TrimSuffix(rest, "/"), scheme != ""))
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n <= 65535 {
		return fmt.Errorf("%s is only a port; write 127.0.0.1:%s, or :%s for every interface", strict.Quote(s), s, s)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if ip, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
			return fmt.Errorf("%s has no port; write %s", strict.Quote(s), net.JoinHostPort(ip.String(), "8080"))
		}
		if !strings.Contains(s, ":") && isHost(s) {
			return fmt.Errorf("%s has no port; write %s:8080", strict.Quote(s), s)
		}
		return fmt.Errorf("%s is not an address; write host:port, such as 127.0.0.1:8080 or [::1]:8080", strict.Quote(s))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || port[0] == '+' {
		return fmt.Errorf("%s has no valid port; write one from 0 to 65535, as in 127.0.0.1:8080", strict.Quote(s))
	}
	if host != "" && !isHost(host) {
		return fmt.Errorf("%s has no valid host; write an IP address or a name, as in 127.0.0.1:8080", strict.Quote(s))
	}
	*a = Address(s)
	return nil
}

func orExample(s string, use bool) string {
	if use && s != "" {
		return s
	}
	return "127.0.0.1:8080"
}

func (Address) Grammar() (what, pattern string) {
	return "an address such as 127.0.0.1:8080", `^[^/\s]*:[0-9]+$`
}

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	host, _, _ := net.SplitHostPort(string(a))
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Port returns the port; 0 means a free one.
func (a Address) Port() int {
	_, port, _ := net.SplitHostPort(string(a))
	n, _ := strconv.Atoi(port)
	return n
}

var hostSyntax = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?$`)

// isHost reports whether s is an IP address or a host name.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return len(s) <= 253 && hostSyntax.MatchString(s)
}

// OriginURL is an address of the origin: http or https, a host, and maybe a
// port.
type OriginURL string

func (u *OriginURL) UnmarshalText(text []byte) error {
	s := string(text)
	const example = "write one such as http://127.0.0.1:3000"
	parsed, err := url.Parse(s)
	if err == nil && parsed.User != nil || strings.Contains(s, "@") {
		// Not quoted: it may hold a password.
		return errors.New("the address holds a user or password; write it without, such as http://127.0.0.1:3000")
	}
	if !strings.Contains(s, "://") {
		if host, _, err := net.SplitHostPort(s); err == nil && isHost(host) || isHost(s) {
			return fmt.Errorf("%s has no scheme; write http://%s or https://%s", strict.Quote(s), s, s)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s is not an address; %s", strict.Quote(s), example)
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("%s begins with neither http:// nor https://; %s", strict.Quote(s), example)
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" || strings.Contains(s, "#"):
		return fmt.Errorf("%s holds a query or fragment; write the address alone, such as %s://%s", strict.Quote(s), parsed.Scheme, parsed.Host)
	case parsed.Path != "" && parsed.Path != "/":
		return fmt.Errorf("%s holds a path, but clients' paths are passed on unchanged; write %s://%s", strict.Quote(s), parsed.Scheme, parsed.Host)
	case !isHost(parsed.Hostname()):
		return fmt.Errorf("%s has no valid host; %s", strict.Quote(s), example)
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%s has no valid port; write one from 1 to 65535", strict.Quote(s))
		}
	}
	*u = OriginURL(parsed.Scheme + "://" + strings.ToLower(parsed.Host))
	return nil
}

func (OriginURL) Grammar() (what, pattern string) {
	return "an address such as http://127.0.0.1:3000", `^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\s]+/?$`
}

// TLS reports whether the origin is spoken to by TLS.
func (u OriginURL) TLS() bool { return strings.HasPrefix(string(u), "https:") }

// Host is the authority as the address has it: the host, and the port where it
// is written.
func (u OriginURL) Host() string {
	_, host, _ := strings.Cut(string(u), "://")
	return host
}

// Address is the host and port to connect to.
func (u OriginURL) Address() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return ""
	}
	port := parsed.Port()
	switch {
	case port != "":
	case u.TLS():
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(parsed.Hostname(), port)
}

// RequestPath is a path to ask for, maybe with a query.
type RequestPath string

const requestPathPattern = `^/[!-"$-~]*$`

var requestPathSyntax = regexp.MustCompile(requestPathPattern)

func (p *RequestPath) UnmarshalText(text []byte) error {
	s := string(text)
	if !requestPathSyntax.MatchString(s) {
		return fmt.Errorf("%s is not a path; write one such as /healthz", strict.Quote(s))
	}
	*p = RequestPath(s)
	return nil
}

func (RequestPath) Grammar() (what, pattern string) {
	return "a path such as /healthz", requestPathPattern
}

// Path is a file on disk. After loading it is absolute, or relative to the
// working directory.
type Path string

func (p *Path) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the path is empty; write the path of a file, or remove the key")
	}
	*p = Path(text)
	return nil
}

func (Path) Grammar() (what, pattern string) { return "the path of a file", `^[\s\S]+$` }

// Output is off, stdout, stderr, or the path of a file.
type Output string

const (
	OutputOff    Output = "off"
	OutputStdout Output = "stdout"
	OutputStderr Output = "stderr"
)

const outputPattern = `^(off|stdout|stderr|[\s\S]*/[\s\S]*[^/])$`

func (o *Output) UnmarshalText(text []byte) error {
	s := string(text)
	words := []string{"off", "stdout", "stderr"}
	switch {
	case slices.Contains(words, s):
	case strings.HasSuffix(s, "/"):
		return fmt.Errorf("%s is a folder; write the path of a file", strict.Quote(s))
	case !strings.Contains(s, "/"):
		if near := strict.Nearest(s, words); near != "" {
			return fmt.Errorf("%s is none of off, stdout, stderr; did you mean %s? A file is written with a slash, such as ./%s", strict.Quote(s), near, s)
		}
		return fmt.Errorf("%s is none of off, stdout, stderr; a file is written with a slash, such as ./decisions.jsonl", strict.Quote(s))
	}
	*o = Output(s)
	return nil
}

func (Output) Grammar() (what, pattern string) {
	return "off, stdout, stderr or the path of a file", outputPattern
}

// File returns the path where o is a file.
func (o Output) File() (path string, ok bool) {
	return string(o), o != OutputOff && o != OutputStdout && o != OutputStderr
}

// Token is a word of HTTP syntax (RFC 9110 section 5.6.2).
type Token string

const tokenPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

var tokenSyntax = regexp.MustCompile(tokenPattern)

func (t *Token) UnmarshalText(text []byte) error {
	s := string(text)
	if !tokenSyntax.MatchString(s) || len(s) > 64 {
		return fmt.Errorf("%s is not a word that fits into a header field; write letters, digits and hyphens", strict.Quote(s))
	}
	*t = Token(s)
	return nil
}

func (Token) Grammar() (what, pattern string) {
	return "a word of letters, digits and hyphens", tokenPattern
}

// HeaderName is the name of a header field; case does not matter.
type HeaderName string

func (h *HeaderName) UnmarshalText(text []byte) error {
	s := string(text)
	switch {
	case strings.HasSuffix(strings.TrimSpace(s), ":"):
		return fmt.Errorf("%s ends in a colon; write the name alone", strict.Quote(s))
	case !tokenSyntax.MatchString(s) || len(s) > 128:
		return fmt.Errorf("%s is not the name of a header field; write one such as X-Tenant-Id", strict.Quote(s))
	}
	*h = HeaderName(s)
	return nil
}

func (HeaderName) Grammar() (what, pattern string) {
	return "the name of a header field such as X-Tenant-Id", tokenPattern
}

// Method is an HTTP method; case matters.
type Method string

func (m *Method) UnmarshalText(text []byte) error {
	s := string(text)
	upper := strings.ToUpper(s)
	common := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	switch {
	case s == "*" || strings.EqualFold(s, "any"):
		return fmt.Errorf("%s is no method; leave methods out to match any", strict.Quote(s))
	case !tokenSyntax.MatchString(s):
		return fmt.Errorf("%s is not a method; write one such as POST, several as methods: [GET, POST]", strict.Quote(s))
	case s != upper && slices.Contains(common, upper):
		return fmt.Errorf("%s is in lower case, and methods are case-sensitive; write %s", strict.Quote(s), upper)
	case upper == "CONNECT" || upper == "TRACE":
		return fmt.Errorf("%s is always refused, so nothing can match it; remove it", strict.Quote(s))
	}
	if near := strict.Nearest(s, common); near != "" && near != s && !slices.Contains(common, s) && len(s) > 2 {
		return fmt.Errorf("%s is no usual method; did you mean %s?", strict.Quote(s), near)
	}
	*m = Method(s)
	return nil
}

func (Method) Grammar() (what, pattern string) { return "a method such as POST", tokenPattern }

// Glob is a text in which * stands for any run of characters, also none.
type Glob string

func (g *Glob) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New(`the text is empty; write a value, or "*" for any`)
	}
	if len(text) > 256 {
		return fmt.Errorf("%s is too long; write at most 256 characters", strict.Quote(string(text)))
	}
	*g = Glob(text)
	return nil
}

func (Glob) Grammar() (what, pattern string) {
	return "a text in which * stands for anything", `^[\s\S]+$`
}

// Network is a range of IP addresses.
type Network struct{ netip.Prefix }

func (n *Network) UnmarshalText(text []byte) error {
	s := string(text)
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		n.Prefix = netip.PrefixFrom(ip, ip.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return fmt.Errorf("%s is not a network; write an IP address or a range such as 10.0.0.0/8", strict.Quote(s))
	case prefix.Addr().Is4In6():
		return fmt.Errorf("%s is IPv4 in IPv6 clothes; write it as IPv4, such as 10.0.0.0/8", strict.Quote(s))
	case prefix != prefix.Masked():
		return fmt.Errorf("%s has bits set beyond its length; write %s", strict.Quote(s), prefix.Masked())
	}
	n.Prefix = prefix
	return nil
}

func (Network) Grammar() (what, pattern string) {
	return "an IP address or a range such as 10.0.0.0/8", `^[0-9a-fA-F:.]+(/[0-9]+)?$`
}

var sha256Syntax = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (h *KeyHash) UnmarshalText(text []byte) error {
	if !sha256Syntax.Match(text) {
		return errors.New("not a SHA-256")
	}
	h.Secret = value.NewSecret(strings.ToLower(string(text)))
	return nil
}

func (KeyHash) Grammar() (what, pattern string) {
	return `the SHA-256 of a key, 64 hex digits; make it by: printf %s "$KEY" | sha256sum`, `^[0-9a-fA-F]{64}$`
}
