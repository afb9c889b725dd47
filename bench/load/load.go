// Package load generates requests in an open loop and tells the truth about
// what became of them.
//
// # The model
//
// Every request has an intended time, computed before the load runs from the
// stages' rates and the seed. One dispatcher hands requests to senders at their
// intended times and never waits for an answer: a target that stalls meets the
// load that its users would go on sending, and the stall shows in the response
// time of every request that was due meanwhile. Response time counts from the
// intended time, service time from the moment the request was really sent. No
// correction is applied on top; none is needed.
//
// A request asks for an effect. Repeats (a client that sends again under the
// same key) and retries (a client that was refused and comes back) are further
// attempts at the same effect. How a request ended for its client is its
// [Ending]; every request has exactly one, also those that timed out and those
// that could not be sent.
//
// Results come in one-second intervals, by intended time, so that in each of
// them requests offered equal the sum of the endings. Clients that react to a
// refusal (obey Retry-After, or ignore it) are part of the load.
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"
)

// Arrivals says how requests are spread over time.
type Arrivals uint8

const (
	// Poisson arrivals are independent of each other, as those of many users
	// are. It is the zero value.
	Poisson Arrivals = iota
	// Uniform arrivals come at equal distances.
	Uniform
)

// Stage is a part of the load with a rate of its own.
type Stage struct {
	Name string
	// From and To are the requests a second at its start and end; between them
	// the rate changes in a straight line.
	From, To float64
	// Duration of the stage. 0, allowed for the last stage only, lasts until the
	// context of Run ends, at rate To.
	Duration time.Duration
}

// OnRefusal is what a client does when it is refused.
type OnRefusal uint8

const (
	// GiveUp never sends the request again. It is the zero value.
	GiveUp OnRefusal = iota
	// Obey sends it again when Retry-After says so, and gives up where there is
	// none.
	Obey
	// Ignore sends it again after about Class.RetryEvery, whatever it was told.
	Ignore
)

// Tenants on whose behalf a class's requests come.
type Tenants struct {
	// Count of tenants; 0 is 1. Their names are Prefix and a number from 1.
	Count  int
	Prefix string // "" is "tenant-"
	// Skew of the Zipf distribution over them: 0 is all alike; tenant n weighs
	// 1/n^Skew.
	Skew float64
	// Heavy, if not "", is one more tenant that sends HeavyShare of all requests.
	Heavy      string
	HeavyShare float64
}

// Keys says how a class uses Idempotency-Key.
type Keys struct {
	// Use sends a key with every request.
	Use bool
	// Repeat is the share of requests, 0 to 1, that repeat an earlier one: same
	// key, same body, same effect.
	Repeat float64
	// Conflict is the share of requests that misuse the key of an earlier one for
	// a different body.
	Conflict float64
}

// Class is a kind of request.
type Class struct {
	Name string
	// Share of the load, relative to the other classes; 0 is 1.
	Share float64
	// Method is POST if "".
	Method string
	Path   string
	// Header fields that every request of the class carries.
	Header  map[string]string
	Tenants Tenants
	Keys    Keys
	// Body is the size of the body in bytes; sizes below what identifies the
	// effect are filled up to that.
	Body int
	// Deadline is how long after its intended time an effect is still worth
	// having done; 0 is no deadline.
	Deadline time.Duration
	// OnRefusal is what clients do when refused, MaxAttempts how often they try
	// in all (0 is 5), RetryEvery the distance at which those who ignore
	// Retry-After come back (0 is 1s; each draws from half to one and a half).
	OnRefusal   OnRefusal
	MaxAttempts int
	RetryEvery  time.Duration
	// RetryFailed makes clients send again, after RetryEvery, what failed, timed
	// out or lost its connection.
	RetryFailed bool
}

// Options of a load. Target, Stages and Classes are required.
type Options struct {
	// Target is the base URL that requests are sent to.
	Target string
	// AllowRemote permits targets that are not on the loopback interface.
	AllowRemote bool
	// Seed of everything random.
	Seed     uint64
	Arrivals Arrivals
	Stages   []Stage
	Classes  []Class
	// TenantHeader carries the tenant; "" is X-Tenant-Id.
	TenantHeader string
	// Timeout of one request from when it is sent; 0 is 10s.
	Timeout time.Duration
	// MaxInFlight bounds requests under way; what is due beyond is unsent. 0 is
	// 4096.
	MaxInFlight int
	// OnInterval, if set, is given each second once all requests intended in it
	// have ended, in order, from one goroutine at a time. The interval is its to
	// keep.
	OnInterval func(*Interval)
	// OnEnd, if set, is told of every request's end. It is called by many
	// goroutines at once and must be quick.
	OnEnd func(*Report)
}

// withDefaults fills in zero values.
func (o Options) withDefaults() Options {
	if o.TenantHeader == "" {
		o.TenantHeader = "X-Tenant-Id"
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 4096
	}
	classes := make([]Class, len(o.Classes))
	for i, c := range o.Classes {
		if c.Share == 0 {
			c.Share = 1
		}
		if c.Method == "" {
			c.Method = "POST"
		}
		if c.Path == "" {
			c.Path = "/"
		}
		if c.Tenants.Count == 0 {
			c.Tenants.Count = 1
		}
		if c.Tenants.Prefix == "" {
			c.Tenants.Prefix = "tenant-"
		}
		if c.MaxAttempts == 0 {
			c.MaxAttempts = 5
		}
		if c.RetryEvery == 0 {
			c.RetryEvery = time.Second
		}
		classes[i] = c
	}
	o.Classes = classes
	return o
}

// check reports everything wrong with o at once.
func (o *Options) check() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf("load: "+format, args...)) }
	if err := CheckTarget(o.Target, o.AllowRemote); err != nil {
		all = append(all, err)
	}
	if len(o.Stages) == 0 {
		bad("there is no stage")
	}
	for i, s := range o.Stages {
		switch {
		case s.From < 0 || s.To < 0:
			bad("stage %d (%s): a rate is negative", i+1, s.Name)
		case s.Duration < 0:
			bad("stage %d (%s): the duration is negative", i+1, s.Name)
		case s.Duration == 0 && i < len(o.Stages)-1:
			bad("stage %d (%s): only the last stage may go without a duration", i+1, s.Name)
		case s.Duration == 0 && s.To == 0:
			bad("stage %d (%s): a stage without a duration needs a rate above zero", i+1, s.Name)
		}
	}
	if len(o.Classes) == 0 {
		bad("there is no class")
	}
	for _, c := range o.Classes {
		switch {
		case c.Share < 0:
			bad("class %s: the share is negative", c.Name)
		case c.Keys.Repeat < 0 || c.Keys.Conflict < 0 || c.Keys.Repeat+c.Keys.Conflict > 1:
			bad("class %s: repeat and conflict are shares and add up to at most 1", c.Name)
		case (c.Keys.Repeat > 0 || c.Keys.Conflict > 0) && !c.Keys.Use:
			bad("class %s: repeats and conflicts need keys", c.Name)
		case c.Tenants.HeavyShare < 0 || c.Tenants.HeavyShare > 1 || (c.Tenants.HeavyShare > 0) != (c.Tenants.Heavy != ""):
			bad("class %s: a heavy tenant needs a name and a share between 0 and 1", c.Name)
		case c.Tenants.Skew < 0 || c.Tenants.Count < 0:
			bad("class %s: tenants need a count and a skew that are not negative", c.Name)
		case c.Body < 0 || c.Deadline < 0 || c.MaxAttempts < 0 || c.RetryEvery < 0:
			bad("class %s: body, deadline, attempts and retry distance must not be negative", c.Name)
		}
	}
	if o.Timeout < 0 || o.MaxInFlight < 0 {
		bad("timeout and requests in flight must not be negative")
	}
	return errors.Join(all...)
}

// CheckTarget reports why a load must not be sent to target: it is no plain
// http URL, or it is not on the loopback interface and remote is not allowed.
func CheckTarget(target string, allowRemote bool) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.Port() == "" {
		return fmt.Errorf("load: target %q is not a URL like http://127.0.0.1:8080", target)
	}
	if allowRemote || u.Hostname() == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("load: target %s is not on this machine's loopback interface; sending load elsewhere has to be allowed, with --allow-remote", target)
}
