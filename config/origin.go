package config

import "sluice/config/value"

// Origin is the API behind the gateway.
type Origin struct {
	// Addresses of the origin, as http://host[:port] or https://host[:port].
	// Several are used in turn.
	URLs []OriginURL `yaml:"urls" single:"url" required:"true" min:"1" max:"100" example:"http://127.0.0.1:3000" aka:"address,addr,host,hosts,servers,addresses,endpoint"`
	// Time for one whole exchange with the origin, connecting included; above it
	// 504.
	Timeout value.Duration `yaml:"timeout" default:"10s" min:"1ms" max:"24h"`
	// Time for one connection to be made, TLS included.
	ConnectTimeout value.Duration `yaml:"connect_timeout" default:"2s" min:"1ms" max:"1h"`
	// Most requests at the origin at once; others wait, by class, or get 503.
	// Absent: any number.
	MaxInFlight int `yaml:"max_in_flight" min:"1" max:"1000000" aka:"concurrency,maxconcurrency"`
	// Learn a lower limit than max_in_flight while latency shows that requests
	// queue inside the origin.
	LearnInFlight bool `yaml:"learn_in_flight" default:"false" aka:"adaptive,auto"`
	// Header field in which clients say how long they will wait for an answer:
	// seconds such as 2.5, or a time such as 800ms.
	DeadlineHeader HeaderName `yaml:"deadline_header" aka:"deadline"`
	// Most connections held to each address.
	MaxConnections int `yaml:"max_connections" default:"512" min:"1" max:"1000000"`
	// Time that an unused connection is kept. Keep it below the origin's own
	// keep-alive timeout, so that the gateway closes first.
	IdleTimeout value.Duration `yaml:"idle_timeout" default:"30s" min:"1ms" max:"24h" aka:"keepalive,keepalivetimeout"`
	// Age at which a connection is replaced, so that changed DNS answers are
	// followed.
	MaxConnectionAge value.Duration `yaml:"max_connection_age" default:"5m" min:"1s" max:"24h"`
	// TLS towards the origin, for https addresses. Absent: the system's
	// authorities are trusted.
	TLS *OriginTLS `yaml:"tls"`
	// Active health check. Absent: addresses are judged by the answers to
	// requests alone.
	Health *Health `yaml:"health" aka:"healthcheck"`
	// When an address is left out for a while. It takes part only where there are
	// several.
	Eject Eject `yaml:"eject"`
}

// OriginTLS is TLS towards the origin.
type OriginTLS struct {
	// PEM file with the authorities to trust instead of the system's.
	CA Path `yaml:"ca" aka:"clientca,cafile"`
	// PEM file with the certificate to show to the origin.
	Cert Path `yaml:"cert" aka:"certificate,certfile"`
	// PEM file with that certificate's private key.
	Key Path `yaml:"key" aka:"privatekey,keyfile"`
	// Name to ask for and to verify, where it is not the host of the address.
	ServerName string `yaml:"server_name" max:"253" aka:"sni"`
	// Accept any certificate. For tests only: anybody between gateway and origin
	// can then read and change everything.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" default:"false" aka:"insecure,skipverify"`
}

// Health is an active health check: GET, with 200 to 399 counting as healthy.
type Health struct {
	// Path to ask for, with its query if it has one.
	Path RequestPath `yaml:"path" required:"true" example:"/healthz"`
	// Time between two checks of one address.
	Every value.Duration `yaml:"every" default:"5s" min:"100ms" max:"1h" aka:"interval,period"`
	// Time for one check.
	Timeout value.Duration `yaml:"timeout" default:"1s" min:"1ms" max:"1h"`
}

// Eject is when an address is left out for a while.
type Eject struct {
	// How many exchanges in a row must fail. 0: never.
	Failures int `yaml:"failures" default:"3" min:"0" max:"1000"`
	// For how long the address is left out.
	For value.Duration `yaml:"for" default:"5s" min:"100ms" max:"1h" aka:"duration"`
}
