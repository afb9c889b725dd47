package admin

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"sluice/internal/testcert"
)

// A certificate of the right authority opens the listener, another or none does
// not; a token does as well, where there is one.
func TestClientCertificates(t *testing.T) {
	servers, operators, strangers := testcert.New(t), testcert.New(t), testcert.New(t)
	server := servers.Sign(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	client := x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	operator, stranger := operators.Sign(t, client), strangers.Sign(t, client)
	for _, token := range []string{"", "s3cret-token"} {
		ts := start(t, func(o *Options) {
			o.Listen, o.Token, o.ClientCerts = "127.0.0.1:0", token, true
			o.TLS = &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: operators.Pool, ClientAuth: tls.VerifyClientCertIfGiven}
		})
		ask := func(path, sent string, certs ...tls.Certificate) int {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: servers.Pool, Certificates: certs}, DisableKeepAlives: true}
			req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+ts.Addr()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if sent != "" {
				req.Header.Set("Authorization", "Bearer "+sent)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				return 0
			}
			res.Body.Close()
			return res.StatusCode
		}
		closed := http.StatusForbidden
		if token != "" {
			closed = http.StatusUnauthorized
		}
		for _, c := range []struct {
			what, path, sent string
			certs            []tls.Certificate
			want             int
		}{
			{"health without a certificate", "/readyz", "", nil, 200},
			{"no certificate", "/status", "", nil, closed},
			{"no certificate for metrics", "/metrics", "", nil, closed},
			{"a wrong token", "/status", "wrong", nil, closed},
			{"an operator's certificate", "/status", "", []tls.Certificate{operator}, 200},
			{"an operator's certificate, and a wrong token", "/", "wrong", []tls.Certificate{operator}, 200},
		} {
			if got := ask(c.path, c.sent, c.certs...); got != c.want {
				t.Errorf("with token %q, %s: %d, want %d", token, c.what, got, c.want)
			}
		}
		// Go's client does not even send a certificate that the server names no
		// authority of; one that is forced through ends the handshake.
		forced := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: servers.Pool,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }}}
		if res, err := (&http.Client{Transport: forced}).Get("https://" + ts.Addr() + "/status"); err == nil {
			res.Body.Close()
			t.Errorf("with token %q, a stranger's certificate is answered with %d", token, res.StatusCode)
		}
		if token != "" {
			if got := ask("/status", token); got != 200 {
				t.Errorf("the token: %d, want 200", got)
			}
		}
	}
}

// An empty token opens nothing where certificates are asked for.
func TestNoTokenIsNotTheEmptyToken(t *testing.T) {
	ts := start(t, func(o *Options) { o.ClientCerts, o.TLS = true, &tls.Config{} })
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+ts.Addr()+"/status", nil)
	r.Header.Set("Authorization", "Bearer ")
	w := httptest.NewRecorder()
	ts.server.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("an empty token: %d, want 403", w.Code)
	}
}
