package config

import "sluice/config/value"

// Store is where the records of idempotency keys are kept. At most one of
// Memory and Redis is set; after loading, exactly one.
type Store struct {
	// In this process. One gateway alone; with a journal a restart forgets
	// nothing.
	Memory *MemoryStore `yaml:"memory" restart:"true"`
	// In Redis, version 7 or later: for several gateways, and across restarts.
	Redis *RedisStore `yaml:"redis" restart:"true"`
	// What record names are made with, so that keys cannot be guessed from them:
	// 16 characters or more. Two while changing it: the first is written with,
	// both are looked for. Absent: one that is built in.
	Secrets []value.Secret `yaml:"secrets" min:"1" max:"2" restart:"true" aka:"secret,hmac"`
	// Encrypt what records hold. The first key writes, all read. Absent: records
	// are written in clear.
	Encrypt []EncryptKey `yaml:"encrypt" min:"1" max:"16" restart:"true" aka:"encryption,seal"`
	// Recorded answers held in this process in front of the store.
	Cache value.Size `yaml:"cache" default:"32MiB" min:"0B" max:"64GiB" restart:"true"`
}

// MemoryStore keeps records in this process.
type MemoryStore struct {
	// What the records may hold. At the limit answered ones lose their bodies,
	// oldest first; then new keys are refused.
	MaxBytes value.Size `yaml:"max_bytes" default:"256MiB" min:"1MiB" max:"1TiB"`
	// File in which every change is recorded. Absent: a restart forgets
	// everything.
	Journal Path `yaml:"journal" aka:"file,aof,wal"`
	// When the journal is written through to the disk: always (before a change
	// counts), second, or never (left to the system).
	Sync JournalSync `yaml:"sync" default:"always" aka:"fsync"`
}

// defaultMemory is MaxBytes of a config that says nothing of its store.
const defaultMemory = 256 * value.MiB

// RedisStore keeps records in Redis. Exactly one of URL, Sentinels and Nodes is
// set.
type RedisStore struct {
	_ struct{} `exactly_one:"url,sentinels,nodes"`

	// One server, as redis://user:password@host:port/database, with rediss for
	// TLS.
	URL value.Secret `yaml:"url" aka:"address,addr,host"`
	// Addresses of Sentinels, as host:port.
	Sentinels []string `yaml:"sentinels" min:"1" max:"32"`
	// Name of what the Sentinels watch over.
	Master string `yaml:"master" max:"128"`
	// Addresses of a cluster, as host:port; the others are found from them.
	Nodes []string `yaml:"nodes" min:"1" max:"256" aka:"cluster"`
	// ACL user, where the URL names none.
	Username string `yaml:"username" max:"256" aka:"user"`
	// The user's password.
	Password value.Secret `yaml:"password"`
	// Database, with Sentinels.
	Database int `yaml:"database" default:"0" min:"0" max:"65535" aka:"db"`
	// TLS to Redis. Absent: the URL says.
	TLS *OriginTLS `yaml:"tls"`
	// Time for one operation, a second try included.
	Timeout value.Duration `yaml:"timeout" default:"500ms" min:"2ms" max:"1m"`
	// Most connections to each server. 0: ten for each processor.
	Connections int `yaml:"connections" default:"0" min:"0" max:"100000"`
	// What record names begin with.
	Prefix Token `yaml:"prefix" default:"sluice"`
}

// EncryptKey encrypts records.
type EncryptKey struct {
	// Number of the key, written with each record: 1 to 255.
	ID int `yaml:"id" required:"true" min:"1" max:"255" example:"1"`
	// 32 random bytes, as 64 hex digits: openssl rand -hex 32
	Key EncryptionKey `yaml:"key" required:"true" example:"${file:/run/secrets/sluice-records}"`
}

// Idempotency is what one route does with idempotency keys.
type Idempotency struct {
	// required: requests without a key are refused. optional: they pass
	// unprotected. off: keys are not looked at.
	Key KeyMode `yaml:"key" required:"true" example:"required"`
	// Which methods this is about.
	Methods []Method `yaml:"methods" default:"[POST, PATCH]" min:"1" max:"32"`
	// Accept only keys in quotes, as the draft standard has them.
	Quoted bool `yaml:"quoted" default:"false" aka:"strict"`
	// What becomes of a request whose outcome is unknown. hold: it is never sent
	// again; repetitions get 409 until somebody resolves it. release: the key is
	// freed; only for origins that recognise the forwarded key themselves.
	OnUnknown OnUnknown `yaml:"on_unknown" default:"hold"`
	// How long a repetition is recognised.
	Retention value.Duration `yaml:"retention" default:"24h" min:"1m" max:"8760h" aka:"ttl,expiry,expire"`
	// How long a repetition waits for the first request to end, before 409.
	Wait value.Duration `yaml:"wait" default:"1s" min:"0s" max:"1m"`
	// What makes two requests the same, besides method, path, query,
	// Content-Type, Content-Encoding and body.
	Fingerprint FingerprintOf `yaml:"fingerprint"`
	// Largest answer body to keep; a larger one is replayed without its body.
	MaxReplay value.Size `yaml:"max_replay" default:"256KiB" min:"0B" max:"16MiB"`
	// Answer fields to keep besides those about the content.
	KeepHeaders []HeaderName `yaml:"keep_headers" max:"32"`
	// What happens while the store cannot be asked. closed: 503. open: requests
	// pass unprotected, marked bypassed.
	OnStoreDown OnStoreDown `yaml:"on_store_down" default:"closed"`
	// bind: a recorded body is only replayed to whoever sends the same
	// Authorization (or API key). ignore: to the tenant.
	Credentials Credentials `yaml:"credentials" default:"ignore"`
	// hold treats a 503 of the origin like an unknown outcome; release trusts it
	// to mean that nothing was done.
	On503 OnUnknown `yaml:"on_503" default:"release"`
}

// FingerprintOf is what makes two requests the same.
type FingerprintOf struct {
	// Further header fields that must be equal.
	Headers []HeaderName `yaml:"headers" max:"32" aka:"header"`
	// Compare JSON bodies by content, not byte for byte.
	JSON bool `yaml:"json" default:"false"`
	// JSON pointers to members that do not count, such as /sent_at. Needs json.
	Ignore []string `yaml:"ignore" max:"64"`
}

// JournalSync says when a journal is written through to the disk.
type JournalSync string

const (
	SyncAlways JournalSync = "always"
	SyncSecond JournalSync = "second"
	SyncNever  JournalSync = "never"
)

func (JournalSync) Values() []string { return []string{"always", "second", "never"} }

// KeyMode says whether requests need an idempotency key.
type KeyMode string

const (
	KeyRequired KeyMode = "required"
	KeyOptional KeyMode = "optional"
	KeyOff      KeyMode = "off"
)

func (KeyMode) Values() []string { return []string{"required", "optional", "off"} }

// OnUnknown says what becomes of a key whose request's outcome is unknown.
type OnUnknown string

const (
	Hold    OnUnknown = "hold"
	Release OnUnknown = "release"
)

func (OnUnknown) Values() []string { return []string{"hold", "release"} }

// OnStoreDown says what happens while the store cannot be asked.
type OnStoreDown string

const (
	StoreClosed OnStoreDown = "closed"
	StoreOpen   OnStoreDown = "open"
)

func (OnStoreDown) Values() []string { return []string{"closed", "open"} }

// Credentials says whom a recorded body is replayed to.
type Credentials string

const (
	CredentialsIgnore Credentials = "ignore"
	CredentialsBind   Credentials = "bind"
)

func (Credentials) Values() []string { return []string{"ignore", "bind"} }
