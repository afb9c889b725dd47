package config

// The closed lists of words that a config may use.

// Mode says whether refusals are enforced.
type Mode string

const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // decide and count, and let pass
)

func (Mode) Values() []string { return []string{"enforce", "shadow"} }

// Unmatched says what happens to requests that no route matches.
type Unmatched string

const (
	Forward Unmatched = "forward"
	Refuse  Unmatched = "refuse"
)

func (Unmatched) Values() []string { return []string{"forward", "refuse"} }

// Missing says what happens to requests without a tenant.
type Missing string

const (
	Anonymous Missing = "anonymous"
	Reject    Missing = "reject"
)

func (Missing) Values() []string { return []string{"anonymous", "reject"} }

// KeyScheme says how a header field carries an API key.
type KeyScheme string

const (
	SchemeNone   KeyScheme = "none"   // the value is the key
	SchemeBearer KeyScheme = "bearer" // the value is "Bearer" and the key
)

func (KeyScheme) Values() []string { return []string{"none", "bearer"} }

// ClientCert says which name in a client's certificate is the tenant.
type ClientCert string

const (
	SubjectCN ClientCert = "subject_cn"
	SANDNS    ClientCert = "san_dns"   // the first DNS name
	SANURI    ClientCert = "san_uri"   // the first URI
	SANEmail  ClientCert = "san_email" // the first mail address
)

func (ClientCert) Values() []string {
	return []string{"subject_cn", "san_dns", "san_uri", "san_email"}
}

// ClientAuth says whether clients are asked for a certificate.
type ClientAuth string

const (
	ClientAuthNone    ClientAuth = "none"
	ClientAuthRequest ClientAuth = "request" // may show one; it must be valid
	ClientAuthRequire ClientAuth = "require" // must show a valid one
)

func (ClientAuth) Values() []string { return []string{"none", "request", "require"} }

// TLSVersion is the oldest version of TLS that is spoken.
type TLSVersion string

const (
	TLS12 TLSVersion = "1.2"
	TLS13 TLSVersion = "1.3"
)

func (TLSVersion) Values() []string { return []string{"1.2", "1.3"} }

// RateLimitHeaders says in which syntax answers tell about limits.
type RateLimitHeaders string

const (
	RateLimitDraft11 RateLimitHeaders = "draft-11" // draft-ietf-httpapi-ratelimit-headers-11
	RateLimitOff     RateLimitHeaders = "off"
)

func (RateLimitHeaders) Values() []string { return []string{"draft-11", "off"} }

// LogLevel is the least important level that is logged.
type LogLevel string

const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

func (LogLevel) Values() []string { return []string{"debug", "info", "warn", "error"} }

// LogFormat is how log records are written.
type LogFormat string

const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

func (LogFormat) Values() []string { return []string{"text", "json"} }
