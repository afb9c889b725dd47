// Package policytest runs unit tests of policies: files in which requests and
// signals are given at times, and what the gateway is expected to decide.
//
//	config: ../config.yaml
//	tests:
//	  - name: mail campaigns give way first
//	    given:
//	      signals:
//	        orders: [{age: 2m30s}]
//	    steps:
//	      - at: 10s
//	        request: {method: POST, path: /v1/campaigns/7/send, tenant: acme}
//	        repeat: 200
//	        every: 10ms
//	        expect: {class: bulk, admitted: 40%..60%, reason: deferred}
//
// Each test begins at time 0 with full buckets, empty queues unless it gives
// their signals, and no records of idempotency keys. It runs on the stage of
// package rehearse: the decisions are those of the running gateway, and equal
// each time.
//
// Files are read strictly, as configurations are; see package strict.
package policytest

import (
	"sluice/config/value"
	"sluice/rehearse/spec"
)

// File is a file of policy tests.
type File struct {
	// The configuration to test. Relative to this file.
	Config string `yaml:"config" required:"true" min:"1" max:"4096" example:"config.yaml" aka:"policy,file"`
	// Environment variables that the configuration names, as they are to be here.
	Env map[string]string `yaml:"env" max:"1000" aka:"environment"`
	// Files that the configuration names in ${file:path}, and what they hold here.
	// Relative to the configuration.
	Files map[string]string `yaml:"files" max:"1000"`
	// Seed of what a gateway draws at random: who of a class is refused, and by
	// how much a Retry-After is spread.
	Seed int64 `yaml:"seed" default:"1" min:"0"`
	// The tests.
	Tests []Test `yaml:"tests" required:"true" min:"1" max:"10000" example:"[{name: orders get in, steps: […]}]" aka:"test,cases"`
}

// Test is one test.
type Test struct {
	// What holds, in a few words.
	Name string `yaml:"name" identity:"true" required:"true" min:"1" max:"200" example:"orders get in" aka:"title,id"`
	// What it begins with.
	Given Given `yaml:"given" aka:"when,setup"`
	// What is sent, in the order of time.
	Steps []Step `yaml:"steps" required:"true" min:"1" max:"10000" example:"[{request: {method: POST, path: /v1/orders}, expect: {verdict: admit}}]" aka:"requests"`
}

// Given is what a test begins with.
type Given struct {
	// What the signals of queues read over time: by the name of a queue, or by
	// queue/signal where it has several. A queue that is left out is empty.
	Signals map[string][]spec.Reading `yaml:"signals" max:"1000" aka:"signal,queues,queue"`
	// How the origin takes requests.
	Origin spec.Origin `yaml:"origin"`
}

// Step sends a request, or several alike, and says what is expected of each.
type Step struct {
	// Since the beginning of the test. Absent: with the last request of the step
	// before. Steps may overlap.
	At value.Duration `yaml:"at" max:"8760h" aka:"time,after"`
	// What is sent. In its texts, {n} is the number of the repetition, from 1.
	Request spec.Request `yaml:"request" required:"true" example:"{method: POST, path: /v1/orders}" aka:"send"`
	// How often.
	Repeat int `yaml:"repeat" default:"1" min:"1" max:"1000000" aka:"times,count"`
	// Time from one to the next.
	Every value.Duration `yaml:"every" default:"0s" max:"24h" aka:"interval"`
	// How the origin takes these. Absent: as given.
	Origin *spec.Origin `yaml:"origin"`
	// What is expected. Absent: nothing; the step sets the scene.
	Expect *Expect `yaml:"expect" aka:"then,assert"`
}

// Expect is what is expected of each request of a step. What is left out does
// not matter.
type Expect struct {
	// admit, replay or refuse.
	Verdict Verdict `yaml:"verdict" aka:"decision,action"`
	// Why it is refused; none: it is not.
	Reason Reason `yaml:"reason" aka:"why"`
	// Status that the client gets.
	Status int `yaml:"status" min:"200" max:"599" aka:"code"`
	// Id of the route, or unmatched.
	Route string `yaml:"route" max:"128"`
	// Name of the class, or none.
	Class string `yaml:"class" max:"128" aka:"priority"`
	// Id of the priority rule that gave the class, or none.
	Rule string `yaml:"rule" max:"128"`
	// Tenant that it counts for.
	Tenant string `yaml:"tenant" max:"512"`
	// Retry-After, in whole seconds as clients get it.
	RetryAfter *RetryAfter `yaml:"retry_after" aka:"retryafter"`
	// Why a policy in shadow mode would have refused it; none: none would have.
	Shadow Reason `yaml:"shadow"`
	// Share of the requests that get in, as admitted or as repetitions. With it,
	// reason, status and retry_after are about those that do not.
	Admitted *Share `yaml:"admitted" aka:"share,accepted"`
	// Idempotency-Status, or none.
	Key KeyStatus `yaml:"key" aka:"idempotencystatus,idempotency"`
}

// RetryAfter bounds a Retry-After.
type RetryAfter struct {
	// At least.
	Min value.Duration `yaml:"min" default:"1s"`
	// At most.
	Max value.Duration `yaml:"max" default:"8760h"`
}
