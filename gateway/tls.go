package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"sluice/config"
)

// serverTLS is how clients are spoken to, with the files loaded.
type serverTLS struct {
	config *tls.Config
}

// certificates hands each new connection the TLS settings in force, so that
// certificates are replaced without a restart and without touching connections
// that are open.
type certificates struct {
	now atomic.Pointer[serverTLS]
}

func (c *certificates) store(t *serverTLS) { c.now.Store(t) }

func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load().config, nil },
	}
}

func loadTLS(t *config.TLS) (*serverTLS, error) {
	pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
	if err != nil {
		return nil, fmt.Errorf("tls.cert, tls.key: %w", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	if t.MinVersion == config.TLS13 {
		c.MinVersion = tls.VersionTLS13
	}
	switch t.ClientAuth {
	case config.ClientAuthRequest:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case config.ClientAuthRequire:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if t.ClientCA != "" {
		if c.ClientCAs, err = loadPool(string(t.ClientCA)); err != nil {
			return nil, fmt.Errorf("tls.client_ca: %w", err)
		}
	}
	return &serverTLS{config: c}, nil
}

// loadAdminTLS loads what operators are spoken to with. A certificate is asked
// for and not required: health checks have none, and a token will do, too.
func loadAdminTLS(t *config.AdminTLS) (*serverTLS, error) {
	pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
	if err != nil {
		return nil, fmt.Errorf("admin.tls.cert, admin.tls.key: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.ClientCA != "" {
		c.ClientAuth = tls.VerifyClientCertIfGiven
		if c.ClientCAs, err = loadPool(string(t.ClientCA)); err != nil {
			return nil, fmt.Errorf("admin.tls.client_ca: %w", err)
		}
	}
	return &serverTLS{config: c}, nil
}

// originTLS returns the settings for https addresses; nil for the defaults.
func originTLS(t *config.OriginTLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CA != "" {
		pool, err := loadPool(string(t.CA))
		if err != nil {
			return nil, fmt.Errorf("origin.tls.ca: %w", err)
		}
		c.RootCAs = pool
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
		if err != nil {
			return nil, fmt.Errorf("origin.tls.cert, origin.tls.key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func loadPool(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(path + " holds no certificate in PEM format")
	}
	return pool, nil
}

// certName returns the tenant name in a client's verified certificate, from
// where the configuration says; "" for none.
func (g *Gateway) certName(cert *x509.Certificate) string {
	for _, s := range g.current.Load().cfg.Tenants.From {
		switch {
		case s.ClientCert == config.SubjectCN:
			return cert.Subject.CommonName
		case s.ClientCert == config.SANDNS && len(cert.DNSNames) > 0:
			return cert.DNSNames[0]
		case s.ClientCert == config.SANURI && len(cert.URIs) > 0:
			return cert.URIs[0].String()
		case s.ClientCert == config.SANEmail && len(cert.EmailAddresses) > 0:
			return cert.EmailAddresses[0]
		}
	}
	return ""
}
