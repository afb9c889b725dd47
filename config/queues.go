package config

import (
	"fmt"
	"strings"
	"time"

	"sluice/config/value"
)

// Queue is a queue behind the origin.
type Queue struct {
	// How long accepted work may wait before it is no longer worth doing.
	MaxUsefulAge value.Duration `yaml:"max_useful_age" required:"true" min:"1s" max:"8760h" example:"5m" aka:"maxage,ttl"`
	// How much work may wait. Absent: any amount.
	MaxDepth int64 `yaml:"max_depth" min:"1" max:"1000000000000"`
	// Where the state of the queue is read. Of several, the worse one counts.
	Signals []Signal `yaml:"signals" single:"signal" required:"true" min:"1" max:"16" example:"{every: 1s, http: {url: \"http://127.0.0.1:3000/queue\", age: /oldest_age}}"`
	// At which predicted wait each class is refused. A class that is left out is
	// refused at max_useful_age.
	Shed map[ID]Band `yaml:"shed" max:"16" aka:"bands,classes"`
	// Most that Retry-After tells.
	MaxRetryAfter value.Duration `yaml:"max_retry_after" default:"15m" min:"1s" max:"24h"`
	// shadow: whatever is decided because of this queue is counted and lets pass.
	Mode Mode `yaml:"mode" default:"enforce"`
}

// Band says how one class gives way as the predicted wait rises.
type Band struct {
	// Predicted wait at which refusing starts, as a time or as a share of
	// max_useful_age.
	From Mark `yaml:"from" required:"true" example:"60%"`
	// Predicted wait from which on only min_admit is left. Equal to from: a step.
	Full Mark `yaml:"full" required:"true" example:"90%"`
	// shed refuses; defer also says when the request is expected back.
	Action Action `yaml:"action" default:"shed"`
	// Share that is admitted up to max_useful_age, however long the wait.
	MinAdmit value.Percent `yaml:"min_admit" default:"0%"`
	// Status of a refusal.
	Status int `yaml:"status" default:"503" min:"429" max:"503"`
	// shadow: count this class's refusals, and let pass.
	Mode Mode `yaml:"mode" default:"enforce"`
}

// Signal is one way to read the state of a queue. Exactly one reader is set.
type Signal struct {
	_ struct{} `exactly_one:"redis_stream,redis_list,rabbitmq,sql,prometheus,http,push"`

	// Name, where a queue has several.
	Name ID `yaml:"name"`
	// Time between two readings.
	Every value.Duration `yaml:"every" default:"1s" min:"100ms" max:"1h" aka:"interval,period"`
	// Time from the figures being true to their being read.
	Delay value.Duration `yaml:"delay" default:"0s" min:"0s" max:"1h" aka:"lag"`
	// What holds while the signal is lost. hold: go on from the last backlog; cap:
	// nine tenths of the usual rate; open: no say; closed: refuse.
	OnLoss OnLoss `yaml:"on_loss" default:"hold"`
	// Oldest age that is believed.
	Retention value.Duration `yaml:"retention" default:"720h" min:"1m" max:"87600h"`

	// The group of a Redis stream.
	RedisStream *RedisStream `yaml:"redis_stream"`
	// A job list of Sidekiq, BullMQ, asynq or RQ in Redis.
	RedisList *RedisList `yaml:"redis_list"`
	// A RabbitMQ queue.
	RabbitMQ *RabbitMQ `yaml:"rabbitmq"`
	// A table or a query in PostgreSQL.
	SQL *SQLSignal `yaml:"sql" aka:"postgres,postgresql"`
	// Queries to Prometheus.
	Prometheus *PrometheusSignal `yaml:"prometheus"`
	// A JSON document over HTTP.
	HTTP *HTTPSignal `yaml:"http" aka:"json"`
	// Told by the origin's answers, or by POST /signals on the admin listener.
	Push *PushSignal `yaml:"push"`
}

// RedisStream reads the group of a stream.
type RedisStream struct {
	// The server, as redis://user:password@host:port/database; rediss for TLS.
	URL value.Secret `yaml:"url" required:"true" example:"redis://127.0.0.1:6379/0"`
	// Key of the stream.
	Stream string `yaml:"stream" required:"true" min:"1" max:"512" example:"orders" aka:"key"`
	// Name of the consumer group.
	Group string `yaml:"group" required:"true" min:"1" max:"512" example:"workers"`
}

// RedisList reads a job list.
type RedisList struct {
	// The server, as redis://user:password@host:port/database; rediss for TLS.
	URL value.Secret `yaml:"url" required:"true" example:"redis://127.0.0.1:6379/0"`
	// Whose list it is.
	Kind ListKind `yaml:"kind" required:"true" example:"sidekiq" aka:"shape,type"`
	// Name of the queue, as its library calls it.
	Queue string `yaml:"queue" required:"true" min:"1" max:"512" example:"default" aka:"name"`
	// What the library's keys begin with, where that was changed (BullMQ, RQ).
	Prefix string `yaml:"prefix" max:"256"`
}

// RabbitMQ reads a queue, over AMQP or by the management API.
type RabbitMQ struct {
	_ struct{} `exactly_one:"url,api"`

	// The broker, as amqp://user:password@host:port/vhost; amqps for TLS. It tells
	// the depth as it is now, and nothing else.
	URL value.Secret `yaml:"url" aka:"amqp"`
	// The management API, as http://user:password@host:port. It tells the depth,
	// completions, and the age where publishers set a timestamp, all some seconds
	// old: set delay.
	API value.Secret `yaml:"api" aka:"management"`
	// Virtual host, for api.
	VHost string `yaml:"vhost" default:"/" max:"256"`
	// Name of the queue.
	Queue string `yaml:"queue" required:"true" min:"1" max:"255" example:"orders"`
}

// SQLSignal reads a table of jobs, or asks a query of the user's own.
type SQLSignal struct {
	_ struct{} `exactly_one:"table,query"`

	// The database, as postgres://user:password@host:port/database.
	URL value.Secret `yaml:"url" required:"true" example:"postgres://sluice@127.0.0.1:5432/app" aka:"dsn"`
	// Table of jobs, with its schema if needed.
	Table string `yaml:"table" min:"1" max:"256"`
	// Condition for work that waits; with table.
	Waiting string `yaml:"waiting" max:"4096" aka:"where"`
	// Column with the time at which work became due; with table.
	Due string `yaml:"due" default:"created_at" max:"256"`
	// A query whose one row has the columns age (seconds), depth and done, as far
	// as it can tell.
	Query string `yaml:"query" max:"65536"`
	// Time for one reading; the database gives up after it.
	Timeout value.Duration `yaml:"timeout" default:"500ms" min:"10ms" max:"1m"`
}

// PrometheusSignal asks Prometheus. Each query must give exactly one number.
type PrometheusSignal struct {
	// The server, as http://host:port.
	URL OriginURL `yaml:"url" required:"true" example:"http://127.0.0.1:9091"`
	// Query for the oldest age, in seconds: exactly one series.
	Age string `yaml:"age" max:"4096"`
	// Query for the depth.
	Depth string `yaml:"depth" max:"4096"`
	// Query for a counter of completions.
	Done string `yaml:"done" max:"4096" aka:"completed"`
	// Query for the Unix time at which the figures were true. Absent: the time of
	// the first query's sample, which has to be a plain selector then.
	Timestamp string `yaml:"timestamp" max:"4096"`
	// Bearer token.
	Token value.Secret `yaml:"token"`
}

// HTTPSignal reads a JSON document, by JSON pointers.
type HTTPSignal struct {
	// Address of the document.
	URL string `yaml:"url" required:"true" min:"1" max:"2048" example:"http://127.0.0.1:3000/queue"`
	// Pointer to the oldest age.
	Age string `yaml:"age" max:"512"`
	// Pointer to the depth.
	Depth string `yaml:"depth" max:"512"`
	// Pointer to a counter of completions.
	Done string `yaml:"done" max:"512" aka:"completed"`
	// Pointer to the time at which the figures were true: RFC 3339, or Unix time.
	SampledAt string `yaml:"sampled_at" max:"512"`
	// Unit of the age.
	Unit AgeUnit `yaml:"unit" default:"s"`
	// Bearer token.
	Token value.Secret `yaml:"token"`
}

// PushSignal is told what the queue is like.
type PushSignal struct {
	// Field of the origin's answers that carries it; it does not reach clients.
	// Absent: POST /signals on the admin listener only.
	Header HeaderName `yaml:"header"`
}

// Mark is a point on a queue's scale: a time, or a share of max_useful_age.
type Mark struct {
	Wait  value.Duration // 0 where it is a share
	Share value.Percent
}

// UnmarshalText reads a time such as 2m or a share such as 60%.
func (m *Mark) UnmarshalText(text []byte) error {
	*m = Mark{}
	if strings.Contains(string(text), "%") {
		return m.Share.UnmarshalText(text)
	}
	if err := m.Wait.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or a share of max_useful_age such as 60%%", err)
	}
	return nil
}

// MarshalText writes m as it is written in files.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String writes m as it is written in files.
func (m Mark) String() string {
	if m.Wait != 0 {
		return m.Wait.String()
	}
	return m.Share.String()
}

// Grammar names the kind of value and gives the pattern of its text.
func (Mark) Grammar() (what, pattern string) {
	_, duration := value.Duration(0).Grammar()
	_, percent := value.Percent(0).Grammar()
	return "a time such as 2m or a share such as 60%", "(" + duration + ")|(" + percent + ")"
}

// Of returns the mark as a share of a queue's max_useful_age.
func (m Mark) Of(maxUsefulAge value.Duration) float64 {
	if m.Wait != 0 {
		return time.Duration(m.Wait).Seconds() / time.Duration(maxUsefulAge).Seconds()
	}
	return m.Share.Fraction()
}

// Action says in which words a class is refused.
type Action string

const (
	Shed  Action = "shed"
	Defer Action = "defer"
)

func (Action) Values() []string { return []string{"shed", "defer"} }

// OnLoss says what holds while a signal is lost.
type OnLoss string

const (
	LossHold   OnLoss = "hold"
	LossCap    OnLoss = "cap"
	LossOpen   OnLoss = "open"
	LossClosed OnLoss = "closed"
)

func (OnLoss) Values() []string { return []string{"hold", "cap", "open", "closed"} }

// ListKind says whose job list it is.
type ListKind string

const (
	Sidekiq ListKind = "sidekiq"
	BullMQ  ListKind = "bullmq"
	Asynq   ListKind = "asynq"
	RQ      ListKind = "rq"
)

func (ListKind) Values() []string { return []string{"sidekiq", "bullmq", "asynq", "rq"} }

// AgeUnit is the unit of an age.
type AgeUnit string

const (
	Seconds      AgeUnit = "s"
	Milliseconds AgeUnit = "ms"
)

func (AgeUnit) Values() []string { return []string{"s", "ms"} }
