package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/config"
)

// certificateFile writes certificates that expire at these times, and the key of
// the last one.
func certificateFile(t *testing.T, expire ...time.Time) (cert, key string) {
	t.Helper()
	var certs, keys []byte
	for i, at := range expire {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotBefore: at.Add(-48 * time.Hour), NotAfter: at}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		keys = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, text := range map[string][]byte{cert: certs, key: keys} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
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
