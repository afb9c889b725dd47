// Package result turns what a run saw into figures, and the figures into a
// verdict.
//
// Three parties saw the run: the clients, the gateway (its counters), and the
// origin (its ledger). Package result holds them against each other before it
// believes any figure: a run whose counts differ has failed, whatever its
// latencies are. Percentiles come from merged histograms, never from averages
// of percentiles, and only where at least ten samples lie beyond them.
package result

import (
	"time"

	"sluice/bench/target"
)

// Format of result.json. It changes when a reader of the old one would be
// misled.
const Format = 1

// Verdict on a run.
type Verdict string

const (
	Pass         Verdict = "pass"
	Missed       Verdict = "missed"       // a threshold was missed, or the counts differ
	Invalid      Verdict = "invalid"      // the generator could not keep up: says nothing about the target
	Inconclusive Verdict = "inconclusive" // too few samples to judge by
)

// ExitCode of the program for a verdict.
func (v Verdict) ExitCode() int {
	return map[Verdict]int{Pass: 0, Missed: 1, Invalid: 3, Inconclusive: 4}[v]
}

// Result of one run. All times are in seconds.
type Result struct {
	Format    int       `json:"format"`
	Name      string    `json:"name"`
	Rehearses string    `json:"rehearses"`
	Healthy   string    `json:"healthy"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"` // of load
	// Interrupted is after how many seconds the load was broken off; absent, it
	// was not.
	Interrupted float64  `json:"interrupted,omitempty"`
	Verdict     Verdict  `json:"verdict"`
	Why         []string `json:"why"` // what the verdict rests on, if it is not pass

	Fingerprint Fingerprint `json:"fingerprint"`
	Target      Target      `json:"target"`
	Origin      Origin      `json:"origin"`
	Generator   Generator   `json:"generator"`

	Total      Numbers     `json:"total"`   // all but warm-up
	Classes    []Numbers   `json:"classes"` // most important first
	Stages     []Stage     `json:"stages"`
	Tenants    []Tenant    `json:"tenants"` // heaviest first
	Inversions []Inversion `json:"inversions"`
	Events     []Event     `json:"events"`
	Checks     []Check     `json:"checks"`
	Counts     []Count     `json:"counts"`
	Thresholds []Threshold `json:"thresholds"`
	Intervals  []Second    `json:"-"` // intervals.ndjson
}

// Fingerprint of where and what was measured. Runs whose Machine differs cannot
// be compared.
type Fingerprint struct {
	Machine  string `json:"machine"` // CPU model, cores, kernel, architecture
	Go       string `json:"go"`
	Commit   string `json:"commit"`   // of the bench; "" where it was not built from a checkout
	Scenario string `json:"scenario"` // hash of the file
	Config   string `json:"config"`   // hash of the gateway's config; "" without one
	Gateway  string `json:"gateway"`  // its version
	Seed     int    `json:"seed"`
}

// Target of the load and what it cost.
type Target struct {
	Kind          string  `json:"kind"` // origin, gateway, or running
	URL           string  `json:"url"`
	CPUSeconds    float64 `json:"cpu_seconds"`     // 0 where the process is not ours
	CPUPerRequest float64 `json:"cpu_per_request"` // seconds a request offered
	PeakMemory    int64   `json:"peak_memory"`     // bytes
}

// Origin describes the simulated origin in words.
type Origin struct {
	Answer   string  `json:"answer"`
	Work     string  `json:"work"`
	Workers  int     `json:"workers"`
	Capacity float64 `json:"capacity"` // pieces of work a second; 0 is unlimited
}

// Generator says whether the load was what it should have been.
type Generator struct {
	Ceiling  float64 `json:"ceiling"` // requests a second that it manages on this machine; 0 is not measured
	LagP99   float64 `json:"lag_p99"` // sent later than intended
	LagLimit float64 `json:"lag_limit"`
	Unsent   int64   `json:"unsent"`
	CPUShare float64 `json:"cpu_share"` // of all cores, origin simulator included
	Timed    bool    `json:"timed"`     // whether times were judged
	// Beside is how many other runs went on at the same time, whose load is part of
	// CPUShare; absent, none did.
	Beside int `json:"beside,omitempty"`
}

// Latency of one kind of ending. A percentile is absent where fewer than ten
// samples lie beyond it.
type Latency struct {
	Count int64    `json:"count"`
	Mean  float64  `json:"mean"`
	P50   *float64 `json:"p50,omitempty"`
	P90   *float64 `json:"p90,omitempty"`
	P99   *float64 `json:"p99,omitempty"`
	P999  *float64 `json:"p999,omitempty"`
	Max   float64  `json:"max"`
	// Spectrum are percentiles for plotting: pairs of share and seconds.
	Spectrum [][2]float64 `json:"spectrum,omitempty"`
}

// Numbers of one class, one stage, or all.
type Numbers struct {
	Name    string           `json:"name"`
	Seconds float64          `json:"seconds"`
	Offered int64            `json:"offered"`
	First   int64            `json:"first"` // first requests for their effect
	Endings map[string]int64 `json:"endings"`
	Reasons map[string]int64 `json:"reasons,omitempty"`

	AdmittedShare float64 `json:"admitted_share"` // replays included
	RefusedShare  float64 `json:"refused_share"`
	FailedShare   float64 `json:"failed_share"`

	Asked      int64   `json:"asked"`    // effects
	Accepted   int64   `json:"accepted"` // effects that a client was told are accepted
	InTime     int64   `json:"in_time"`  // of those: done within the deadline
	Goodput    float64 `json:"goodput"`  // effects done in time, a second
	Duplicates int64   `json:"duplicates"`
	Lost       int64   `json:"lost"`
	Obeyed     int64   `json:"obeyed"` // came back as told
	Kept       int64   `json:"kept"`   // and were let in

	Response Latency `json:"response"` // from the intended time: admitted, and timed out at no less than the timeout
	Service  Latency `json:"service"`  // from the time sent: the same requests
	Refusal  Latency `json:"refusal"`  // from the intended time: refused
	Replay   Latency `json:"replay"`   // from the intended time: replayed
}

// Stage is the numbers of one stage, and of its classes.
type Stage struct {
	Numbers
	Kind        string    `json:"kind"`
	Start       float64   `json:"start"`
	From        float64   `json:"from"` // requests a second
	To          float64   `json:"to"`
	QueueAgeMax float64   `json:"queue_age_max"`
	Recovery    *float64  `json:"recovery,omitempty"` // recover stages: until all is admitted again
	Classes     []Numbers `json:"classes"`
}

// Tenant is what one tenant got.
type Tenant struct {
	Name    string `json:"name"`
	Class   string `json:"class"`
	Offered int64  `json:"offered"`
	LetIn   int64  `json:"let_in"`
}

// Inversion is a second in which a class was refused more often than a less
// important one, by more than chance explains.
type Inversion struct {
	Second      int     `json:"second"`
	Higher      string  `json:"higher"`
	Lower       string  `json:"lower"`
	HigherShare float64 `json:"higher_refused"`
	LowerShare  float64 `json:"lower_refused"`
	Stage       string  `json:"stage"`
}

// Event that happened during the run.
type Event struct {
	At   float64 `json:"at"`
	Till float64 `json:"till"` // 0 is: stayed
	What string  `json:"what"`
}

// Check is something that holds in every sound run.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Count is one kind of request as three parties counted it; -1 where a party
// does not count it.
type Count struct {
	What    string `json:"what"`
	Client  int64  `json:"client"`
	Gateway int64  `json:"gateway"`
	Origin  int64  `json:"origin"`
	Doubt   int64  `json:"doubt"` // by how much they may differ: requests whose end their client did not learn
	OK      bool   `json:"ok"`
}

// Threshold and how it was met.
type Threshold struct {
	What   string `json:"what"`
	Value  string `json:"value"` // as measured, in the metric's unit
	Bound  string `json:"bound"`
	Result string `json:"result"` // met, missed, unknown, not_judged
	Why    string `json:"why,omitempty"`
	// Invariant is what holds under any load: to miss it outweighs an invalid run.
	Invariant bool `json:"invariant,omitempty"`
}

// Second of the run.
type Second struct {
	T         int              `json:"t"`
	Stage     string           `json:"stage"`
	Offered   int64            `json:"offered"`
	Endings   map[string]int64 `json:"endings"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
	InTime    int64            `json:"in_time"` // effects done in time in this second
	QueueAge  float64          `json:"queue_age"`
	Depth     int              `json:"depth"`
	LagP99    float64          `json:"lag_p99"`
	Held      *target.Held     `json:"held,omitempty"` // by the gateway, where a threshold is about it
	Classes   []ClassSecond    `json:"classes"`
	Heat      []int64          `json:"heat"` // response times by HeatBounds
	StageKind string           `json:"stage_kind"`
}

// ClassSecond is one class in a second.
type ClassSecond struct {
	Name          string   `json:"name"`
	Offered       int64    `json:"offered"`
	Admitted      int64    `json:"admitted"` // replays included
	Refused       int64    `json:"refused"`
	InTime        int64    `json:"in_time"`
	P50           *float64 `json:"p50,omitempty"`
	P99           *float64 `json:"p99,omitempty"`
	Max           float64  `json:"max"`
	AdmittedShare *float64 `json:"admitted_share,omitempty"`
}
