// Package scenario reads the files that say what a run of the bench does: the
// target, the origin behind it, who sends what and when, what goes wrong
// meanwhile, and what a healthy result is.
//
// Files are read strictly, like the gateway's own config: everything wrong is
// reported at once, with line and column and what would be right.
package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/bench/dist"
	"sluice/bench/load"
	"sluice/bench/origin"
	"sluice/config/strict"
	"sluice/config/value"
)

// Scenario is a whole file.
type Scenario struct {
	// Version of the file format.
	Version int `yaml:"version" required:"true" min:"1" max:"1" example:"1"`
	// Short name, used for files and headings.
	Name Name `yaml:"name" required:"true" example:"overload"`
	// What the scenario rehearses, in a sentence or two.
	Rehearses string `yaml:"rehearses" required:"true" min:"1" max:"2000"`
	// What a healthy result looks like.
	Healthy string `yaml:"healthy" required:"true" min:"1" max:"2000"`
	// Seed of everything random.
	Seed int `yaml:"seed" default:"1" min:"0"`

	Target     Target      `yaml:"target"`
	Origin     Origin      `yaml:"origin"`
	Load       Load        `yaml:"load"`
	Classes    []Class     `yaml:"classes" required:"true" min:"1" max:"16"`
	Stages     []Stage     `yaml:"stages" required:"true" min:"1" max:"100"`
	Events     []Event     `yaml:"events" max:"100" aka:"faults"`
	Thresholds []Threshold `yaml:"thresholds" max:"100" aka:"asserts,expect,checks"`

	// File and Hash say where the scenario came from.
	File string `yaml:"-"`
	Hash string `yaml:"-"`
}

// Target is what the load is sent to: at most one of its fields is set. With
// none, the load goes straight to the origin: the control that the cost of a
// gateway is measured against.
type Target struct {
	// A gateway config to start the real program with, relative to the scenario.
	// It may use ${env:BENCH_LISTEN}, ${env:BENCH_ADMIN}, ${env:BENCH_ORIGIN} and,
	// with redis, ${env:BENCH_REDIS}.
	Config string `yaml:"config"`
	// Start a Redis server for the gateway, of the redis-server installed here.
	Redis bool `yaml:"redis" default:"false"`
	// A program that runs already.
	URL string `yaml:"url"`
	// Base URL of its admin listener, to read its counters.
	Admin string `yaml:"admin"`
}

// Origin is the simulated API behind the target.
type Origin struct {
	// Time that the API takes to answer one publication.
	Answer *Duration `yaml:"answer"`
	// Publications that the API handles at once; 0 is no limit.
	Concurrency int `yaml:"concurrency" default:"0" min:"0" max:"100000"`
	// Workers that serve the queue.
	Workers int `yaml:"workers" default:"1" min:"1" max:"100000"`
	// Time that a worker takes for one piece of work.
	Work *Duration `yaml:"work"`
	// Work that may wait; what is published beyond gets 503.
	MaxDepth int `yaml:"max_depth" default:"1000000" min:"1"`
	// Keep the queue as a stream in the scenario's Redis, too, for a gateway that
	// reads its signal there. Absent: over HTTP and in an answer field only.
	RedisStream *RedisStream `yaml:"redis_stream"`
}

// RedisStream is a stream and the group of workers that reads it.
type RedisStream struct {
	Stream string `yaml:"stream" required:"true" min:"1" example:"work"`
	Group  string `yaml:"group" required:"true" min:"1" example:"workers"`
}

// Duration is a distribution of durations.
type Duration struct {
	_ struct{} `exactly_one:"fixed,uniform,exponential,lognormal"`

	Fixed       value.Duration `yaml:"fixed"`
	Uniform     *Range         `yaml:"uniform"`
	Exponential value.Duration `yaml:"exponential"`
	Lognormal   *Lognormal     `yaml:"lognormal"`
}

// Range of durations, all alike.
type Range struct {
	From value.Duration `yaml:"from" required:"true" example:"1ms"`
	To   value.Duration `yaml:"to" required:"true" example:"9ms"`
}

// Lognormal durations: most are short, a few are very long.
type Lognormal struct {
	Median value.Duration `yaml:"median" required:"true" example:"5ms"`
	P99    value.Duration `yaml:"p99" required:"true" example:"50ms"`
}

// Load is how requests are sent.
type Load struct {
	// How arrivals are spread over time.
	Arrivals Arrivals `yaml:"arrivals" default:"poisson"`
	// Longest wait for one answer.
	Timeout value.Duration `yaml:"timeout" default:"10s" above:"0s"`
	// Requests under way at once; what is due beyond is counted as unsent.
	MaxInFlight int `yaml:"max_in_flight" default:"4096" min:"1" max:"60000"`
	// Header field that names the tenant.
	TenantHeader string `yaml:"tenant_header" default:"X-Tenant-Id" min:"1"`
}

// Class is a kind of request.
type Class struct {
	Name  Name          `yaml:"name" required:"true" example:"critical"`
	Share value.Percent `yaml:"share" required:"true" above:"0%" example:"20%"`

	Method string            `yaml:"method" default:"POST" min:"1"`
	Path   string            `yaml:"path" required:"true" min:"1" example:"/v1/orders"`
	Header map[string]string `yaml:"header" aka:"headers"`
	Body   value.Size        `yaml:"body" default:"256B" min:"0B" max:"8MiB"`

	Tenants Tenants `yaml:"tenants"`
	Keys    *Keys   `yaml:"keys"`

	// How long after it was asked for an effect is still worth having. Absent:
	// for ever.
	Deadline value.Duration `yaml:"deadline"`
	// What clients do when they are refused.
	OnRefusal OnRefusal `yaml:"on_refusal" default:"give_up"`
	// How often they try in all.
	Attempts int `yaml:"attempts" default:"5" min:"1" max:"1000"`
	// How soon those who do not obey Retry-After come back, on average.
	RetryEvery value.Duration `yaml:"retry_every" default:"1s" above:"0s"`
	// Whether clients send again what failed, timed out or lost its connection.
	RetryFailed bool `yaml:"retry_failed" default:"false"`
}

// Tenants on whose behalf a class's requests come.
type Tenants struct {
	Count int `yaml:"count" default:"1" min:"1" max:"1000000"`
	// Their names are this and a number.
	Prefix string `yaml:"prefix" default:"tenant-" min:"1"`
	// Zipf exponent in percent: at 0% all are alike; at 100% the second sends
	// half as much as the first, the third a third.
	Skew value.Percent `yaml:"skew" default:"0%"`
	// One more tenant that sends a share of its own.
	Heavy *Heavy `yaml:"heavy"`
}

// Heavy is one tenant that sends much.
type Heavy struct {
	Name  string        `yaml:"name" required:"true" min:"1" example:"whale"`
	Share value.Percent `yaml:"share" required:"true" above:"0%" example:"60%"`
}

// Keys says that a class sends Idempotency-Key, and how.
type Keys struct {
	// Requests that repeat an earlier one.
	Repeat value.Percent `yaml:"repeat" default:"0%"`
	// Requests that misuse an earlier key for a different body.
	Conflict value.Percent `yaml:"conflict" default:"0%"`
}

// Stage is a part of the load with a rate of its own.
type Stage struct {
	Name Name `yaml:"name" required:"true" example:"overload"`
	// What the stage is for: warmup is left out of latencies and thresholds.
	Kind StageKind `yaml:"kind" default:"hold"`
	// Requests a second, at the start of a ramp.
	Rate value.Rate `yaml:"rate" required:"true" example:"500/s"`
	// Requests a second at the end of a ramp.
	To  *value.Rate    `yaml:"to"`
	For value.Duration `yaml:"for" required:"true" above:"0s" example:"10s" aka:"duration"`
}

// Event is something that happens during the run. What it changes goes back
// after For; an event without For stays.
type Event struct {
	_ struct{} `exactly_one:"origin,signal,gateway,redis"`

	At  value.Duration `yaml:"at" required:"true" example:"10s"`
	For value.Duration `yaml:"for" aka:"duration"`

	Origin  *OriginEvent  `yaml:"origin"`
	Signal  SignalEvent   `yaml:"signal"`
	Gateway *GatewayEvent `yaml:"gateway"`
	Redis   *RedisEvent   `yaml:"redis"`
}

// OriginEvent changes how the origin behaves.
type OriginEvent struct {
	// Stop the workers.
	Pause bool `yaml:"pause" default:"false"`
	// Have this many workers.
	Workers *int `yaml:"workers" min:"0" max:"100000"`
	// Let this many pieces of work get stuck at the head of the queue.
	Poison int `yaml:"poison" default:"0" min:"0" max:"1000"`
	// Answer this much later.
	Latency value.Duration `yaml:"latency"`
	// Share answered 503, nothing recorded.
	Errors value.Percent `yaml:"errors"`
	// Share of connections reset before anything is recorded.
	Resets value.Percent `yaml:"resets"`
	// Share recorded whose answer is lost.
	Lost value.Percent `yaml:"lost"`
	// Answer nothing.
	Stall bool `yaml:"stall" default:"false"`
}

// GatewayEvent does something to the gateway that the bench has started.
type GatewayEvent struct {
	_ struct{} `exactly_one:"reload,restart,kill"`

	// Put this config in place, relative to the scenario.
	Reload string `yaml:"reload"`
	// Stop it as an operator does, and start it again.
	Restart bool `yaml:"restart"`
	// Kill it, and start it again.
	Kill bool `yaml:"kill"`
}

// RedisEvent breaks the gateway's connections to Redis.
type RedisEvent struct {
	// Reset all connections and refuse new ones.
	Down bool `yaml:"down" default:"false"`
	// Swallow everything, without a sign.
	Stall bool `yaml:"stall" default:"false"`
	// Delay every reply.
	Latency value.Duration `yaml:"latency"`
	// Lose the next replies: Redis has done what was asked, and the gateway does
	// not hear of it.
	Lose int `yaml:"lose" default:"0" min:"0" max:"100000"`
}

// Threshold is one thing that a healthy run fulfils.
type Threshold struct {
	Metric Metric `yaml:"metric" required:"true" example:"admitted_share"`
	// Only this class. Absent: all together.
	Class Name `yaml:"class"`
	// Only this stage. Absent: all but warm-up.
	Stage Name `yaml:"stage"`
	// Of a growth: the earlier stage that it counts from.
	Since Name `yaml:"since"`
	// Bounds, in the metric's unit; a count is a number in quotes, or none.
	AtLeast string `yaml:"at_least" aka:"min"`
	AtMost  string `yaml:"at_most" aka:"max"`
}

// Load reads the scenario in file.
func Read(file string) (*Scenario, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, data)
}

// Parse reads a scenario from text; paths in it are relative to name.
func Parse(name string, data []byte) (*Scenario, error) {
	var s Scenario
	doc := strict.Source{Name: name, Data: data}.Decode(&s)
	s.check(doc)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	s.File = name
	sum := sha256.Sum256(data)
	s.Hash = hex.EncodeToString(sum[:6])
	return &s, nil
}

// Relative returns path as the scenario means it.
func (s *Scenario) Relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(s.File), path)
}

// Length of all stages together.
func (s *Scenario) Length() (d time.Duration) {
	for _, st := range s.Stages {
		d += time.Duration(st.For)
	}
	return d
}

// Distribution is d as the simulator knows it; nil is none.
func (d *Duration) Distribution() dist.Distribution {
	switch {
	case d == nil:
		return dist.Distribution{}
	case d.Uniform != nil:
		return dist.Between(time.Duration(d.Uniform.From), time.Duration(d.Uniform.To))
	case d.Exponential > 0:
		return dist.Exp(time.Duration(d.Exponential))
	case d.Lognormal != nil:
		return dist.LogNorm(time.Duration(d.Lognormal.Median), time.Duration(d.Lognormal.P99))
	}
	return dist.Const(time.Duration(d.Fixed))
}

// OriginOptions for the simulator. It remembers everything that the load can
// publish, so that the ledger's proofs cover the whole run.
func (s *Scenario) OriginOptions() origin.Options {
	return origin.Options{
		Seed:        uint64(s.Seed),
		Answer:      s.Origin.Answer.Distribution(),
		Concurrency: s.Origin.Concurrency,
		Workers:     s.Origin.Workers,
		Work:        s.Origin.Work.Distribution(),
		MaxDepth:    s.Origin.MaxDepth,
		Remember:    s.remember(),
	}
}

// remember is how many ledger entries a run may need: all arrivals, and as many
// again for those who come back.
func (s *Scenario) remember() int {
	n := 0.0
	for _, st := range s.LoadStages() {
		n += (st.From + st.To) / 2 * st.Duration.Seconds()
	}
	return int(2*n) + 10_000
}

// LoadStages are the stages as the generator knows them.
func (s *Scenario) LoadStages() []load.Stage {
	all := make([]load.Stage, len(s.Stages))
	for i, st := range s.Stages {
		all[i] = load.Stage{Name: string(st.Name), From: float64(st.Rate), To: float64(st.Rate), Duration: time.Duration(st.For)}
		if st.To != nil {
			all[i].To = float64(*st.To)
		}
	}
	return all
}

// LoadOptions for the generator, but for the target.
func (s *Scenario) LoadOptions() load.Options {
	o := load.Options{
		Seed:         uint64(s.Seed),
		Stages:       s.LoadStages(),
		Timeout:      time.Duration(s.Load.Timeout),
		MaxInFlight:  s.Load.MaxInFlight,
		TenantHeader: s.Load.TenantHeader,
	}
	if s.Load.Arrivals == ArrivalsUniform {
		o.Arrivals = load.Uniform
	}
	for _, c := range s.Classes {
		l := load.Class{
			Name: string(c.Name), Share: c.Share.Fraction(),
			Method: c.Method, Path: c.Path, Header: c.Header, Body: int(c.Body),
			Tenants:     load.Tenants{Count: c.Tenants.Count, Prefix: c.Tenants.Prefix, Skew: c.Tenants.Skew.Fraction()},
			Deadline:    time.Duration(c.Deadline),
			OnRefusal:   c.OnRefusal.load(),
			MaxAttempts: c.Attempts, RetryEvery: time.Duration(c.RetryEvery), RetryFailed: c.RetryFailed,
		}
		if h := c.Tenants.Heavy; h != nil {
			l.Tenants.Heavy, l.Tenants.HeavyShare = h.Name, h.Share.Fraction()
		}
		if c.Keys != nil {
			l.Keys = load.Keys{Use: true, Repeat: c.Keys.Repeat.Fraction(), Conflict: c.Keys.Conflict.Fraction()}
		}
		o.Classes = append(o.Classes, l)
	}
	return o
}

// ClassIndex is the place of a class in the list; -1 where there is none.
func (s *Scenario) ClassIndex(name Name) int {
	for i, c := range s.Classes {
		if c.Name == name {
			return i
		}
	}
	return -1
}

// StageIndex is the place of a stage in the list; -1 where there is none.
func (s *Scenario) StageIndex(name Name) int {
	for i, st := range s.Stages {
		if st.Name == name {
			return i
		}
	}
	return -1
}

// String is the scenario's name.
func (s *Scenario) String() string { return fmt.Sprintf("%s (%s)", s.Name, s.File) }
