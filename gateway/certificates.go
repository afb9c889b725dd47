package gateway

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"

	"sluice/config"
)

// certificate is one that the gateway shows, and when it expires.
type certificate struct {
	path    string // in the configuration
	expires time.Time
}

// certificatesOf reads when the certificates of cfg expire. They have been
// loaded before, so one that cannot be read has just gone, and is left out.
func certificatesOf(cfg *config.Config) (all []certificate) {
	add := func(path string, file config.Path) {
		if file == "" {
			return
		}
		if at := expiryOf(string(file)); !at.IsZero() {
			all = append(all, certificate{path, at})
		}
	}
	if cfg.TLS != nil {
		add("tls.cert", cfg.TLS.Cert)
	}
	if cfg.Origin.TLS != nil {
		add("origin.tls.cert", cfg.Origin.TLS.Cert)
	}
	if cfg.Admin.TLS != nil {
		add("admin.tls.cert", cfg.Admin.TLS.Cert)
	}
	return all
}

// expiryOf returns when the first certificate of a chain to expire does; zero
// where there is none.
func expiryOf(file string) (first time.Time) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return first
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return first
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
}
