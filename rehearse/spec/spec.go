// Package spec has the parts of files and questions about policies that are the
// same in all of them: what is sent, what the signals of queues read over time,
// and how the origin takes requests.
//
// They are sections of files that package strict reads; [Checker] finds what is
// wrong with them under a policy.
package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/config/strict"
	"sluice/config/value"
	"sluice/rehearse"
	"sluice/shedding"
)

// Request is what is sent. In its texts, {n} is the number of the repetition,
// from 1.
type Request struct {
	// Method, as sent.
	Method config.Method `yaml:"method" default:"GET" aka:"verb"`
	// Path, as sent, with the query if there is one.
	Path string `yaml:"path" required:"true" min:"1" max:"8192" example:"/v1/orders" aka:"url,uri,target"`
	// Tenant on whose behalf it comes: sent in the header field that names
	// tenants, if the configuration has one; otherwise taken as identified.
	Tenant string `yaml:"tenant" max:"512" aka:"customer,user"`
	// Class that it asks for in the class header.
	Class string `yaml:"class" max:"64" aka:"priority"`
	// Header fields.
	Header map[config.HeaderName]string `yaml:"header" max:"100" aka:"headers,fields"`
	// Address of whoever connects: the client, or the proxy in front.
	Client string `yaml:"client" default:"192.0.2.1" aka:"ip,address,peer,remoteaddr"`
	// Name in the client's verified certificate.
	ClientCert string `yaml:"client_cert" max:"256" aka:"cert"`
	// Body: requests with one idempotency key and different bodies are not the same.
	Body string `yaml:"body" max:"65536"`
}

// Reading is what a queue is like at one time. Figures move in a straight line
// up to the next reading. What is left out is not told by the signal.
type Reading struct {
	// Since the beginning of the test.
	At value.Duration `yaml:"at" default:"0s" max:"8760h" aka:"time,after"`
	// How long the oldest work has waited.
	Age *value.Duration `yaml:"age" max:"8760h" aka:"wait,oldest"`
	// How much work waits.
	Depth *int64 `yaml:"depth" min:"0" max:"1000000000000" aka:"size,length"`
	// How much work is completed, from here on.
	Done *value.Rate `yaml:"done" aka:"completed,rate"`
	// The signal cannot be read, from here to the next reading.
	Silent bool `yaml:"silent" default:"false" aka:"lost,missing"`
	// The signal repeats itself to the last digit, from here to the next reading,
	// as a broken exporter does.
	Frozen bool `yaml:"frozen" default:"false" aka:"stuck"`
}

// Origin is how the origin takes requests.
type Origin struct {
	// How long it takes for one: the request holds its place for so long.
	Takes value.Duration `yaml:"takes" default:"0s" max:"24h" aka:"latency,duration"`
	// Status of its answers.
	Answers int `yaml:"answers" default:"200" min:"200" max:"599" aka:"status"`
	// answered, not_sent (it cannot be reached), or unknown (it takes the request
	// and gives no answer).
	Outcome Outcome `yaml:"outcome" default:"answered"`
}

// Outcome is what happens to requests at the origin.
type Outcome string

func (Outcome) Values() []string { return []string{"answered", "not_sent", "unknown"} }

func (o Outcome) outcome() admission.Outcome {
	for _, known := range []admission.Outcome{admission.NotSent, admission.Unknown} {
		if known.String() == string(o) {
			return known
		}
	}
	return admission.Answered
}

// Checker finds what single values of a document do not show to be wrong under a
// policy.
type Checker struct {
	*strict.Document
	Policy *config.Config
}

// Signals checks timelines by the name of their signal.
func (c Checker) Signals(at string, signals map[string][]Reading) {
	for name, readings := range signals {
		c.timeline(strict.Key(at, name), name, readings)
	}
}

func (c Checker) timeline(at, name string, readings []Reading) {
	if known := rehearse.SignalNames(c.Policy); !slices.Contains(known, name) {
		c.ProblemAtKey(at, "%s", Unknown(c.Policy, "queue, or queue/signal,", name, known))
	}
	if len(readings) == 0 {
		c.Problem(at, "there is no reading; write at least one, such as {age: 42s}")
	}
	for i, r := range readings {
		path := strict.Index(at, i)
		switch {
		case i > 0 && r.At <= readings[i-1].At:
			c.Problem(path, "it is not later (%s) than the reading before it (%s); write them in the order of time", r.At, readings[i-1].At)
		case r.Silent && (r.Age != nil || r.Depth != nil || r.Done != nil || r.Frozen):
			c.Problem(path, "a silent signal tells nothing; remove silent, or everything else but at")
		case !r.Silent && r.Age == nil && r.Depth == nil:
			c.Problem(path, "it says neither age nor depth; write one of them, or silent: true")
		}
	}
}

// Request checks a request.
func (c Checker) Request(at string, r *Request) {
	if !strings.HasPrefix(r.Path, "/") && r.Path != "" {
		c.Problem(at+".path", "%s is not a path; write it from its first slash on, such as /v1/orders", c.Written(at+".path"))
	}
	if _, err := netip.ParseAddr(r.Client); err != nil {
		c.Problem(at+".client", "%s is not an address; write one such as 192.0.2.1", c.Written(at+".client"))
	}
	if r.Class == "" {
		return
	}
	if c.Policy.ClassHeader == nil {
		c.Problem(at+".class", "requests cannot ask for a class: %s has no class_header; expect the class instead, or add a class_header", c.Policy.Source.File)
	}
}

// Unknown says that a policy has nothing of that kind and name, and what it has.
func Unknown(policy *config.Config, what, name string, known []string) string {
	hint := "there are: " + strings.Join(known, ", ")
	if near := strict.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	} else if len(known) == 0 {
		hint = "it has none"
	}
	return fmt.Sprintf("%s has no %s %s; %s", policy.Source.File, what, strict.Quote(name), hint)
}

// Timelines turns readings into what a stage takes.
func Timelines(signals map[string][]Reading) map[string]rehearse.Timeline {
	all := make(map[string]rehearse.Timeline, len(signals))
	for name, readings := range signals {
		for _, r := range readings {
			p := rehearse.Point{At: time.Duration(r.At), Silent: r.Silent, Frozen: r.Frozen}
			if r.Age != nil {
				p.Age = shedding.Known(time.Duration(*r.Age).Seconds())
			}
			if r.Depth != nil {
				p.Depth = shedding.Known(float64(*r.Depth))
			}
			if r.Done != nil {
				p.Done = shedding.Known(float64(*r.Done))
			}
			all[name] = append(all[name], p)
		}
	}
	return all
}

// Rehearsed turns o into what a stage takes.
func (o *Origin) Rehearsed() rehearse.Origin {
	out := rehearse.Origin{Takes: time.Duration(o.Takes), Outcome: o.Outcome.outcome(), Status: o.Answers}
	if out.Outcome != admission.Answered {
		out.Status = 0
	}
	return out
}

// Numbered turns r into what a stage takes, as its n-th repetition.
func (r *Request) Numbered(n int) *rehearse.Request {
	put := func(s string) string { return strings.ReplaceAll(s, "{n}", fmt.Sprint(n)) }
	q := &rehearse.Request{
		Method: string(r.Method), Path: put(r.Path), Tenant: put(r.Tenant), Class: r.Class, Body: put(r.Body), ClientCert: put(r.ClientCert),
	}
	q.Client, _ = netip.ParseAddr(r.Client) // checked
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		q.Header = append(q.Header, rehearse.Field{Name: string(name), Value: put(r.Header[name])})
	}
	return q
}
