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
		if !s.hostAllowed(r.Host) {
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

// authorize demands the token where there is one. Liveness and readiness are
// told to anybody.
func (s *Server) authorize(next http.Handler) http.Handler {
	if s.Token == "" {
		return next
	}
	want := sha256.Sum256([]byte(s.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			got := sha256.Sum256([]byte(token))
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", `Bearer realm="sluice admin"`)
				writeProblem(w, http.StatusUnauthorized, "Send the token of this listener as Authorization: Bearer.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
