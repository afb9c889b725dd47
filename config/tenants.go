package config

import (
	"encoding/hex"

	"sluice/config/value"
)

// Tenants says on whose behalf requests come, and how many each may send.
type Tenants struct {
	// Where a request's tenant is read; the first that yields one wins.
	From []TenantSource `yaml:"from" default:"[{client_ip: {}}]" min:"1" max:"16"`
	// What happens to requests from which none yields a tenant: anonymous counts
	// them as one tenant called "anonymous".
	Missing Missing `yaml:"missing" default:"anonymous"`
	// What each tenant may send. Absent: only overrides and routes limit.
	Limit *Limit `yaml:"limit" aka:"ratelimit,limits"`
	// Tenants that differ, by name: "ip:" and the address for tenants known by
	// client_ip, "cert:" and the name for client_cert, "anonymous" for the rest.
	// What one leaves out, it takes from limit.
	Overrides map[string]Override `yaml:"overrides" max:"100000"`
	// How many tenants are told apart at once. When that many are busy, further
	// ones share one bucket.
	MaxTracked int `yaml:"max_tracked" default:"100000" min:"1000" max:"10000000"`
	// API keys and the tenants that they stand for. A key that is not listed is
	// always refused.
	APIKeys []APIKey `yaml:"api_keys" max:"100000" aka:"keys"`
}

// TenantSource is one place where a request's tenant is read. Exactly one of
// its fields is set.
type TenantSource struct {
	_ struct{} `exactly_one:"header,api_key,client_ip,client_cert"`

	// Name of a header field that names the tenant. It is believed as it comes:
	// use it behind something that sets it.
	Header HeaderName `yaml:"header"`
	// An API key, looked up in api_keys.
	APIKey *APIKeySource `yaml:"api_key" aka:"bearer,authorization"`
	// The client's address, or the network that it is in.
	ClientIP *ClientIPSource `yaml:"client_ip" aka:"ip,remoteaddr"`
	// A name in the client's verified certificate.
	ClientCert ClientCert `yaml:"client_cert" aka:"mtls"`
}

// APIKeySource says where an API key is read.
type APIKeySource struct {
	// Header field that carries the key. Absent: X-Api-Key, or Authorization
	// where the scheme is bearer.
	Header HeaderName `yaml:"header"`
	// none: the value is the key. bearer: it is "Bearer" and the key, in
	// Authorization.
	Scheme KeyScheme `yaml:"scheme" default:"none"`
}

// ClientIPSource says which addresses count as one tenant.
type ClientIPSource struct {
	// Leading bits that tell IPv4 clients apart.
	PrefixV4 int `yaml:"prefix_v4" default:"32" min:"8" max:"32"`
	// Leading bits that tell IPv6 clients apart. Whoever has one IPv6 address
	// usually has a whole /64 of them.
	PrefixV6 int `yaml:"prefix_v6" default:"64" min:"16" max:"128"`
}

// Limit is a token bucket.
type Limit struct {
	// Tokens that come back, over time.
	Rate value.Rate `yaml:"rate" required:"true" above:"0/s" example:"100/s"`
	// Tokens that a full bucket holds: most that can be spent at once.
	Burst int64 `yaml:"burst" required:"true" min:"1" max:"1000000000" example:"200"`
	// shadow: count what would be refused, and let it pass.
	Mode Mode `yaml:"mode" default:"enforce"`
}

// Override is what differs for one tenant. After loading, what the file leaves
// out is taken from tenants.limit and class_header; Rate is 0 where neither
// sets a limit, MaxClass "" where clients can't name a class.
type Override struct {
	// Tokens that come back, over time. Absent: as in limit.
	Rate value.Rate `yaml:"rate" above:"0/s"`
	// Tokens that a full bucket holds. Absent: as in limit.
	Burst int64 `yaml:"burst" min:"1" max:"1000000000"`
	// shadow: count what would be refused, and let it pass. Absent: as in limit.
	Mode Mode `yaml:"mode"`
	// Most important class that this tenant's requests may name in the class
	// header. Absent: class_header.ceiling.
	MaxClass ID `yaml:"max_class"`
}

// APIKey is one API key, known by its hash alone.
type APIKey struct {
	// SHA-256 of the key, as 64 hex digits:
	// printf %s "$KEY" | sha256sum
	SHA256 KeyHash `yaml:"sha256" required:"true" example:"<64 hex digits>" aka:"hash,key,digest"`
	// The tenant that it stands for.
	Tenant string `yaml:"tenant" required:"true" min:"1" max:"128" example:"acme" aka:"name"`
}

// KeyHash is the SHA-256 of an API key, in hex. It never prints.
type KeyHash struct{ value.Secret }

// Sum returns the hash as bytes.
func (h KeyHash) Sum() (sum [32]byte) {
	_, _ = hex.Decode(sum[:], []byte(h.Reveal())) // UnmarshalText has checked it
	return sum
}
