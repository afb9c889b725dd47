// Package testcert makes certificates for tests.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Make it with [New].
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	Pool *x509.CertPool // of its own certificate: who trusts it
}

// New makes an authority that nobody trusts yet.
func New(t testing.TB) *Authority {
	t.Helper()
	root := SelfSigned(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a := &Authority{cert: root.Leaf, key: root.PrivateKey.(*ecdsa.PrivateKey), Pool: x509.NewCertPool()}
	a.Pool.AddCert(root.Leaf)
	return a
}

// Issue makes a certificate for 127.0.0.1 in the given name, for servers and
// clients. It is good for an hour.
func (a *Authority) Issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	return a.Sign(t, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Sign makes a certificate as c says; see [SelfSigned].
func (a *Authority) Sign(t testing.TB, c x509.Certificate) tls.Certificate {
	t.Helper()
	return sign(t, c, a)
}

// SelfSigned makes a certificate as c says, signed by its own key. What c leaves
// out of serial number and times is filled in: it is good from an hour ago for an
// hour from now.
func SelfSigned(t testing.TB, c x509.Certificate) tls.Certificate {
	t.Helper()
	return sign(t, c, nil)
}

func sign(t testing.TB, c x509.Certificate, by *Authority) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if c.SerialNumber == nil {
		c.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := &c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Files writes certificates one after the other, as a chain is, and the key of
// the last one, into a folder of the test's.
func Files(t testing.TB, certs ...tls.Certificate) (cert, key string) {
	t.Helper()
	var chain []byte
	for _, c := range certs {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(certs[len(certs)-1].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, text := range map[string][]byte{cert: chain, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
