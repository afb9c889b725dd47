package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
	"time"

	"sluice/config"
	"sluice/internal/testcert"
)

// certificateFile writes certificates that expire at these times, and the key of
// the last one.
func certificateFile(t *testing.T, expire ...time.Time) (cert, key string) {
	t.Helper()
	var certs []tls.Certificate
	for _, at := range expire {
		certs = append(certs, testcert.SelfSigned(t, x509.Certificate{NotBefore: at.Add(-48 * time.Hour), NotAfter: at}))
	}
	return testcert.Files(t, certs...)
}

// A chain is good until its first certificate expires, and each certificate that
// the configuration names is told by its path there.
func TestCertificateExpiry(t *testing.T) {
	soon := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	chain, _ := certificateFile(t, soon.Add(time.Hour), soon, soon.Add(2*time.Hour))
	single, _ := certificateFile(t, soon.Add(time.Minute))
	got := certificatesOf(&config.Config{
		TLS:    &config.TLS{Cert: config.Path(chain)},
		Origin: config.Origin{TLS: &config.OriginTLS{Cert: config.Path(single)}},
		Admin:  config.Admin{TLS: &config.AdminTLS{Cert: config.Path(filepath.Join(t.TempDir(), "gone"))}},
	})
	want := []certificate{{"tls.cert", soon}, {"origin.tls.cert", soon.Add(time.Minute)}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i].path != want[i].path || !got[i].expires.Equal(want[i].expires) {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
	if none := certificatesOf(&config.Config{}); none != nil {
		t.Errorf("without TLS: %v", none)
	}
}
