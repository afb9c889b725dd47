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

// authorize lets in who has the token, or where there is none, who is on this
// machine. Health is told to anybody, metrics where there is no token.
func (s *Server) authorize(next http.Handler) http.Handler {
	if s.o.Token == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(openPaths, r.URL.Path) && !fromHere(r) {
				writeProblem(w, http.StatusForbidden,
					"Callers on other machines get /livez, /readyz and /metrics only, since this listener has no token.")
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	want := sha256.Sum256([]byte(s.o.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(sentToken(r)))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 && !slices.Contains(healthPaths, r.URL.Path) {
			w.Header()["Www-Authenticate"] = []string{`Bearer realm="sluice admin"`, `Basic realm="sluice admin", charset="UTF-8"`}
			writeProblem(w, http.StatusUnauthorized,
				"Send the token of this listener as Authorization: Bearer, or as the password of any user.")
			return
		}
		next.ServeHTTP(w, r)
	})
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

// fromHere tells whether the caller is on this machine.
func fromHere(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
