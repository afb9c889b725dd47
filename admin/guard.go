package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// answerWithin bounds writing an answer, streams and profiles apart.
const answerWithin = 30 * time.Second

// guard is what every request passes first. A browser that was lured to a
// hostile page must not become a way in: the page's own host name, made to
// resolve to this listener, is refused (DNS rebinding), and so are requests
// that a page of another origin sends and that would change something.
func (s *Server) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusForbidden, "Requests that change something are not taken from pages of another origin.")
	}))
	next = crossOrigin.Handler(s.authorize(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin))
		// What is told to other machines is told by whatever name they use.
		if !s.hostAllowed(r.Host) && (s.loopback || !slices.Contains(openPaths, r.URL.Path)) {
			writeProblem(w, http.StatusMisdirectedRequest,
				"This listener does not answer to the host named in the request. Use its address, or list the host name in admin.hosts.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostAllowed tells whether a Host field names this listener. Addresses cannot
// be rebound, so any will do, of loopback only where the listener is.
func (s *Server) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "localhost" || slices.Contains(s.hosts, name) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && (!s.loopback || addr.Unmap().IsLoopback())
}

// Paths that are not only for operators: health is asked for by whatever runs
// the gateway, and metrics are fetched from elsewhere by their nature.
var (
	healthPaths = []string{"/livez", "/readyz"}
	openPaths   = append([]string{"/metrics"}, healthPaths...)
)

// authorize lets in who has the token, or a certificate that TLS has verified.
// Where neither is configured, only this machine can reach the listener (see
// [NewServer]). Health is told to anybody.
func (s *Server) authorize(next http.Handler) http.Handler {
	if s.o.Token == "" && !s.o.ClientCerts {
		return next
	}
	want := sha256.Sum256([]byte(s.o.Token))
	known := func(r *http.Request) bool {
		if s.o.ClientCerts && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			return true
		}
		// Hashes are compared, in constant time, so that neither the token's
		// bytes nor its length can be timed.
		got := sha256.Sum256([]byte(sentToken(r)))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && s.o.Token != ""
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(healthPaths, r.URL.Path) || known(r):
			next.ServeHTTP(w, r)
		case s.o.Token == "":
			writeProblem(w, http.StatusForbidden, "Show a client certificate that is signed by an authority in admin.tls.client_ca.")
		default:
			w.Header()["Www-Authenticate"] = []string{`Bearer realm="sluice admin"`, `Basic realm="sluice admin", charset="UTF-8"`}
			writeProblem(w, http.StatusUnauthorized,
				"Send the token of this listener as Authorization: Bearer, or as the password of any user.")
		}
	})
}

// changing guards what changes something.
func (s *Server) changing(h http.HandlerFunc) http.HandlerFunc {
	if s.o.Write {
		return h
	}
	return func(w http.ResponseWriter, r *http.Request) {
		detail := "This listener is read-only. To have it take " + r.Method + " " + r.URL.Path + ", set admin.write: true, and restart."
		if r.URL.Path == "/reload" {
			detail += " A changed file is noticed by itself, and SIGHUP reloads as well."
		}
		writeProblem(w, http.StatusForbidden, detail)
	}
}

func sentToken(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return ""
}
