package config

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"sluice/config/strict"
	"sluice/config/value"
)

// EncryptionKey is 32 bytes in hex. It never prints.
type EncryptionKey struct{ value.Secret }

func (k *EncryptionKey) UnmarshalText(text []byte) error {
	if !sha256Syntax.Match(text) { // as long as a SHA-256
		return errors.New("not a key")
	}
	k.Secret = value.NewSecret(strings.ToLower(string(text)))
	return nil
}

func (EncryptionKey) Grammar() (what, pattern string) {
	return "a key of 32 bytes, 64 hex digits; make one by: openssl rand -hex 32", `^[0-9a-fA-F]{64}$`
}

// Bytes returns the key as bytes.
func (k EncryptionKey) Bytes() []byte {
	b, _ := hex.DecodeString(k.Reveal()) // UnmarshalText has checked it
	return b
}

// settleMargin is part of a record's lease: time for what lies between the
// origin's answer and the store, and for clocks that do not run alike.
const settleMargin = 2 * time.Second

// Lease is how long a record of route r may go without a word of its owner
// before others conclude that this one died: the longest time that the origin may
// take, and the store to be told, twice where the first try fails.
func (c *Config) Lease(r *Route) time.Duration {
	lease := time.Duration(r.Timeout) + settleMargin
	if redis := c.Store.Redis; redis != nil {
		lease += 2 * time.Duration(redis.Timeout)
	}
	return lease
}

func (k checker) checkStore() {
	s := &k.Store
	if k.Has("store.memory") && k.Has("store.redis") {
		k.Problem("store.redis", "records are kept in one place; keep memory or redis, not both")
	}
	for i, secret := range s.Secrets {
		at := strict.Index("store.secrets", i)
		if !k.Failed(at) && len(secret.Reveal()) < 16 {
			k.Problem(at, "the secret is too short to protect anything; give it 16 characters or more")
		}
	}
	seen := map[int]bool{}
	for i, e := range s.Encrypt {
		if e.ID != 0 && seen[e.ID] {
			k.Problem(strict.Index("store.encrypt", i)+".id", "%d is the number of another key, too; give each its own", e.ID)
		}
		seen[e.ID] = true
	}
	if r := s.Redis; r != nil {
		if len(r.Sentinels) > 0 && r.Master == "" {
			k.Problem("store.redis.sentinels", "Sentinels need the name of what they watch over; add master")
		}
		if len(r.Sentinels) == 0 && r.Master != "" {
			k.Problem("store.redis.master", "only Sentinels know masters by name; add sentinels, or remove this key")
		}
		if r.TLS != nil {
			k.pair("store.redis.tls", "cert", r.TLS.Cert, "key", r.TLS.Key)
		}
	}
}

// checkIdempotency checks what route i does with keys.
func (k checker) checkIdempotency(i int) {
	r := &k.Routes[i]
	p := r.Idempotency
	if p == nil || p.Key == KeyOff {
		return
	}
	at := strict.Index("routes", i) + ".idempotency"
	if r.Stream {
		k.Problem(at, "a streamed body cannot be compared nor kept; remove stream from this route, or write key: off")
	}
	if lease := k.Lease(r); time.Duration(p.Retention) <= lease && !k.Failed(at+".retention") {
		k.Problem(at+".retention", "%s is not longer than a request of this route may take (%s); a record would vanish while its request runs", p.Retention, lease)
	}
	if len(p.Fingerprint.Ignore) > 0 && !p.Fingerprint.JSON {
		k.Problem(at+".fingerprint.ignore", "members can be left out of JSON only; add json: true")
	}
	for j, pointer := range p.Fingerprint.Ignore {
		if !strings.HasPrefix(pointer, "/") {
			k.Problem(strict.Index(at+".fingerprint.ignore", j), "%s is not a JSON pointer; write it with a slash before each name, such as /meta/sent_at", strict.Quote(pointer))
		}
	}
}

// lintStore warns of keys that protect less than they seem to.
func (k checker) lintStore() {
	keyed := false
	for i, r := range k.Routes {
		p := r.Idempotency
		if p == nil || p.Key == KeyOff {
			continue
		}
		keyed = true
		if time.Duration(p.Retention) < time.Hour {
			k.Warn(strict.Index("routes", i)+".idempotency.retention", "%s is short: a client that retries later than that executes its request again", p.Retention)
		}
	}
	if !keyed {
		return
	}
	if len(k.Store.Secrets) == 0 && k.Store.Redis != nil {
		k.Warn("store.redis", "record names are made with a built-in secret, so whoever reads Redis can test guesses of keys; set store.secrets")
	}
}
