// Package config reads Sluice's configuration: one strict YAML file into plain
// structs with units and defaults.
//
// [Load] reads a file and [Parse] a text. Both return either a [Config] in
// which every default is filled in, or [Problems]: everything that is wrong, at
// once, each as file:line:column: path: what is wrong, what would be right. A
// config that loads may still carry warnings, in Config.Source: settings that
// are allowed but probably not meant.
//
// The structs are described once, by their field tags and comments: decoding,
// the JSON schema for editors (config.schema.json), [Config.Effective] and
// [Diff] all read that one description, by package [sluice/config/strict].
// Quantities and secrets are the types of package [sluice/config/value].
//
// Reading a config touches nothing but the file itself, the environment
// variables and the files that it names in ${…}. Whether certificates load and
// ports are free is for the gateway to find out.
package config

//go:generate go test . -run TestSchemaIsCurrent -update

import (
	"sluice/config/strict"
	"sluice/config/value"
)

// Problem and Problems are what is wrong with a file; see [strict.Problems].
type (
	Problem  = strict.Problem
	Problems = strict.Problems
)

// Config is a whole configuration, with every default filled in. It is
// immutable once loaded, and safe to read from any goroutine.
type Config struct {
	// Version of the file format.
	Version int `yaml:"version" required:"true" min:"1" max:"1" example:"1"`

	// Address that clients connect to, as host:port. Port 0 takes a free one.
	Listen Address `yaml:"listen" default:"127.0.0.1:8080" restart:"true" aka:"address,addr,bind,port"`
	// The private listener: health, metrics, status, reload.
	Admin Admin `yaml:"admin"`
	// TLS towards clients. Absent: plain HTTP.
	TLS *TLS `yaml:"tls" restart:"presence" aka:"ssl,https"`
	// What one client may ask of the gateway.
	Limits Limits `yaml:"limits"`
	// Addresses of proxies in front, as CIDR or IP. Only what they say about the
	// client's address is believed.
	TrustedProxies []Network `yaml:"trusted_proxies" max:"1000"`
	// What the origin is told about the way a request came.
	Forwarding Forwarding `yaml:"forwarding"`
	// Whether answers carry the RateLimit and RateLimit-Policy fields, and in
	// which version of their syntax.
	RateLimitHeaders RateLimitHeaders `yaml:"ratelimit_headers" default:"draft-11"`

	// The API behind the gateway.
	Origin Origin `yaml:"origin" required:"true" example:"{url: http://127.0.0.1:3000}" aka:"upstream,backend,upstreams,backends,target,origins"`

	// Where the records of idempotency keys are kept. Absent: in memory.
	Store Store `yaml:"store" aka:"storage,redis,database"`

	// On whose behalf requests come, and how many each tenant may send.
	Tenants Tenants `yaml:"tenants" aka:"customers,clients,users,consumers"`

	// How much requests matter: most important first.
	Classes []Class `yaml:"classes" default:"[{name: critical, share: 50%, max_wait: 500ms}, {name: standard, share: 40%, max_wait: 100ms}, {name: bulk, share: 10%}]" min:"1" max:"16" aka:"tiers,levels,priorities"`
	// The queues behind the origin, by name.
	Queues map[ID]Queue `yaml:"queues" max:"1000" aka:"topics,queue"`
	// Lets clients name the class of a request. Absent: they can't.
	ClassHeader *ClassHeader `yaml:"class_header"`
	// Rules that give a request its class, whatever its route. The first that
	// matches wins; where none does, the route's class holds.
	Priority []PriorityRule `yaml:"priority" max:"1000"`

	// Which requests are guarded, and how. The first that matches wins.
	Routes []Route `yaml:"routes" max:"5000" aka:"rules,endpoints,paths"`
	// What happens to requests that no route matches.
	Unmatched Unmatched `yaml:"unmatched" default:"forward"`

	// How the gateway stops.
	Shutdown Shutdown `yaml:"shutdown"`
	// How the gateway notices a changed file.
	Reload Reload `yaml:"reload"`
	// What the gateway says about itself, on standard error.
	Log Log `yaml:"log" aka:"logging,logger"`
	// What the gateway says about the requests that it refuses.
	DecisionLog DecisionLog `yaml:"decision_log" aka:"accesslog,audit,auditlog"`
	// What the metrics tell apart.
	Metrics Metrics `yaml:"metrics"`

	// Source says where this config came from. It takes no part in comparisons.
	Source Source `yaml:"-"`
}

// Source is where a config came from.
type Source struct {
	// File is the name that the config was loaded by.
	File string
	// Hash identifies the text: the first twelve hex digits of its SHA-256. It
	// does not cover the files and variables that the text names.
	Hash string
	// Files lists the files read for ${file:path}: they may change, too.
	Files []string
	// Lines gives the line of each path that the file writes, such as "tenants",
	// "routes[2]" or "routes[2].match.path". API keys are left out.
	Lines map[string]int
	// Warnings are settings that are allowed but probably not meant.
	Warnings Problems
}

// Admin is the private listener.
type Admin struct {
	// Address of the private listener, as host:port. One that other machines can
	// reach needs a token, or client certificates (tls.client_ca).
	Listen Address `yaml:"listen" default:"127.0.0.1:9090" restart:"true" aka:"address,addr,bind,port"`
	// What has to be sent with everything but /livez and /readyz, as a bearer
	// token or as a browser's password.
	Token value.Secret `yaml:"token" restart:"true" aka:"password,secret"`
	// TLS on this listener. Absent: plain HTTP.
	TLS *AdminTLS `yaml:"tls" restart:"presence" aka:"ssl,https"`
	// Whether the listener takes what changes something: reload, drain, posted
	// signals, resolved records. Otherwise it only shows.
	Write bool `yaml:"write" default:"false" restart:"true" aka:"readwrite,writable,allowwrite"`
	// Names under which the listener may be addressed besides localhost and
	// addresses.
	Hosts []string `yaml:"hosts" max:"100" restart:"true" aka:"host"`
	// Serve Go's profiler under /debug/pprof/.
	Pprof bool `yaml:"pprof" default:"false" restart:"true"`
}

// AdminTLS is how operators are spoken to. The files are read again when they
// change.
type AdminTLS struct {
	// PEM file with the certificate and its chain. Relative to the config file.
	Cert Path `yaml:"cert" required:"true" example:"/etc/sluice/admin.crt" aka:"certificate,certfile"`
	// PEM file with the certificate's private key.
	Key Path `yaml:"key" required:"true" example:"/etc/sluice/admin.key" aka:"privatekey,keyfile"`
	// PEM file with the authorities that sign operators' certificates. Whoever
	// shows one that they signed needs no token; without either, only /livez and
	// /readyz are answered.
	ClientCA Path `yaml:"client_ca" restart:"true" aka:"ca"`
}

// TLS is how clients are spoken to. The files are read again when they change;
// connections that are open stay as they are.
type TLS struct {
	// PEM file with the certificate and its chain. Relative to the config file.
	Cert Path `yaml:"cert" required:"true" example:"/etc/sluice/tls.crt" aka:"certificate,certfile"`
	// PEM file with the certificate's private key.
	Key Path `yaml:"key" required:"true" example:"/etc/sluice/tls.key" aka:"privatekey,keyfile"`
	// PEM file with the authorities that sign client certificates.
	ClientCA Path `yaml:"client_ca" aka:"ca"`
	// Whether clients are asked for a certificate, and whether they need one.
	ClientAuth ClientAuth `yaml:"client_auth" default:"none"`
	// Oldest version of TLS that is spoken.
	MinVersion TLSVersion `yaml:"min_version" default:"1.2"`
}

// Limits bound what one client may ask of the gateway.
type Limits struct {
	// Largest request body on routes; above it 413. Requests without a route are
	// passed on as they come, of any size.
	MaxBody value.Size `yaml:"max_body" default:"1MiB" min:"1B" max:"1TiB"`
	// Largest block of request header fields; above it 431.
	MaxHeaders value.Size `yaml:"max_headers" default:"16KiB" min:"1KiB" max:"1MiB"`
	// Longest request target (path and query); above it 414.
	MaxTarget value.Size `yaml:"max_target" default:"8KiB" min:"64B" max:"1MiB"`
	// Time for a request's head to arrive; above it 408.
	HeaderTimeout value.Duration `yaml:"header_timeout" default:"10s" min:"10ms"`
	// Time for a request's body to arrive; above it 408.
	BodyTimeout value.Duration `yaml:"body_timeout" default:"30s" min:"10ms"`
	// Time that a connection may stay open between two requests.
	IdleTimeout value.Duration `yaml:"idle_timeout" default:"75s" min:"10ms"`
	// Time for an answer to be taken by the client.
	WriteTimeout value.Duration `yaml:"write_timeout" default:"30s" min:"10ms"`
	// Most connections held at once; further ones get 503.
	MaxConnections int `yaml:"max_connections" default:"10000" min:"1" max:"10000000"`
	// Most connections held at once from one client address. 0: no limit.
	MaxConnectionsPerClient int `yaml:"max_connections_per_client" default:"0" min:"0" max:"10000000"`
	// Largest answer of the origin that is held in memory; above it 502.
	MaxResponse value.Size `yaml:"max_response" default:"32MiB" min:"1KiB" max:"1TiB"`
}

// Forwarding is what the origin is told about the way a request came.
type Forwarding struct {
	// Send X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
	XForwarded bool `yaml:"x_forwarded" default:"true"`
	// Send Forwarded (RFC 7239).
	Forwarded bool `yaml:"forwarded" default:"false"`
	// Name of this gateway in Via. Give each gateway in a chain its own: a
	// request that has passed through this name before is refused as a loop.
	Via Token `yaml:"via" default:"sluice"`
}

// Shutdown is how the gateway stops.
type Shutdown struct {
	// Time between failing readiness and closing the listener, for load
	// balancers to notice.
	Drain value.Duration `yaml:"drain" default:"5s" min:"0s" max:"1h"`
	// Time for running requests to finish after that.
	Timeout value.Duration `yaml:"timeout" default:"30s" min:"0s" max:"24h"`
}

// Reload is how the gateway notices a changed file. SIGHUP and POST /reload on
// the admin listener always work.
type Reload struct {
	// How often the content of the files is compared. 0s: never.
	Watch value.Duration `yaml:"watch" default:"2s" min:"0s" max:"24h"`
}

// Log is what the gateway says about itself.
type Log struct {
	// Least important level that is written.
	Level LogLevel `yaml:"level" default:"info" restart:"true"`
	// One line of key=value, or one JSON object, for each record.
	Format LogFormat `yaml:"format" default:"text" restart:"true"`
}

// DecisionLog is what the gateway says about the requests that it refuses: one
// JSON object a line, written off the request path. What does not fit is
// dropped and counted. "sluice replay" makes its decisions again, under the
// same configuration or another one.
type DecisionLog struct {
	// off, stdout, stderr, or a file to append to, written with a slash.
	Output Output `yaml:"output" default:"off" restart:"true" aka:"file,path"`
	// Most refusals of each route and reason written each second; the rest are
	// counted.
	RefusalsPerSecond int `yaml:"refusals_per_second" default:"100" restart:"true" min:"1" max:"1000000"`
	// How many requests that each route admits are written each second, as a
	// sample.
	AdmitsPerSecond int `yaml:"admits_per_second" default:"0" restart:"true" min:"0" max:"1000000"`
	// Write every decision: the two rates above do not count. Only then does a
	// replay meet the buckets and queues as they were.
	Complete bool `yaml:"complete" default:"false" restart:"true" aka:"all,full"`
	// Write each reading of a queue's signal as well: without them nobody can tell
	// what a queue would have let in.
	Signals bool `yaml:"signals" default:"true" restart:"true"`
	// Header fields that are written besides those that the configuration reads,
	// so that another one can be tried that reads them. Fields that carry
	// credentials cannot be.
	Headers []HeaderName `yaml:"headers" max:"16" aka:"header,fields"`
}

// Metrics is what the metrics tell apart.
type Metrics struct {
	// How many of the busiest tenants get series of their own; the rest share
	// one.
	Tenants int `yaml:"tenants" default:"20" min:"0" max:"1000" restart:"true"`
}
