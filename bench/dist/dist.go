// Package dist describes how long things take: distributions of durations that
// can be sampled from a seeded source and whose mean and quantiles are known in
// closed form, so that a measurement can be held against the truth.
package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Kind is the shape of a distribution.
type Kind uint8

const (
	// Fixed always yields A. It is the zero value.
	Fixed Kind = iota
	// Uniform yields anything from A to B alike.
	Uniform
	// Exponential has mean A: the time between independent events.
	Exponential
	// Lognormal has median A and 99th percentile B: most are short, a few are
	// very long, as most services behave.
	Lognormal
)

// Distribution of durations. The zero value always yields zero. It is a plain
// value and safe for concurrent use; the random source is the caller's.
type Distribution struct {
	Kind Kind
	A, B time.Duration
}

// Const always yields d.
func Const(d time.Duration) Distribution { return Distribution{Fixed, d, 0} }

// Between yields durations from lo to hi.
func Between(lo, hi time.Duration) Distribution { return Distribution{Uniform, lo, hi} }

// Exp yields exponentially distributed durations.
func Exp(mean time.Duration) Distribution { return Distribution{Exponential, mean, 0} }

// LogNorm yields log-normally distributed durations.
func LogNorm(median, p99 time.Duration) Distribution { return Distribution{Lognormal, median, p99} }

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

func (d Distribution) sigma() float64 {
	return math.Log(float64(d.B)/float64(d.A)) / z99
}

// Check reports what is wrong with d, nil if nothing is.
func (d Distribution) Check() error {
	switch {
	case d.A < 0 || d.B < 0:
		return fmt.Errorf("dist: a duration is negative")
	case d.Kind == Uniform && d.B < d.A:
		return fmt.Errorf("dist: uniform from %v to %v is the wrong way round", d.A, d.B)
	case d.Kind == Lognormal && (d.A == 0 || d.B < d.A):
		return fmt.Errorf("dist: log-normal needs a median above zero and a 99th percentile not below it, not %v and %v", d.A, d.B)
	case d.Kind > Lognormal:
		return fmt.Errorf("dist: unknown kind %d", d.Kind)
	}
	return nil
}

// Sample draws one duration.
func (d Distribution) Sample(r *rand.Rand) time.Duration {
	switch d.Kind {
	case Uniform:
		return d.A + time.Duration(r.Float64()*float64(d.B-d.A))
	case Exponential:
		return time.Duration(r.ExpFloat64() * float64(d.A))
	case Lognormal:
		return time.Duration(float64(d.A) * math.Exp(d.sigma()*r.NormFloat64()))
	}
	return d.A
}

// Mean is the expected duration.
func (d Distribution) Mean() time.Duration {
	switch d.Kind {
	case Uniform:
		return (d.A + d.B) / 2
	case Lognormal:
		s := d.sigma()
		return time.Duration(float64(d.A) * math.Exp(s*s/2))
	}
	return d.A
}

// Quantile is the duration that a share p, from 0 to below 1, of all samples
// stays under.
func (d Distribution) Quantile(p float64) time.Duration {
	switch d.Kind {
	case Uniform:
		return d.A + time.Duration(p*float64(d.B-d.A))
	case Exponential:
		return time.Duration(-math.Log1p(-p) * float64(d.A))
	case Lognormal:
		return time.Duration(float64(d.A) * math.Exp(d.sigma()*math.Sqrt2*math.Erfinv(2*p-1)))
	}
	return d.A
}

// String is the distribution in words.
func (d Distribution) String() string {
	switch d.Kind {
	case Uniform:
		return fmt.Sprintf("uniform from %v to %v", d.A, d.B)
	case Exponential:
		return fmt.Sprintf("exponential with mean %v", d.A)
	case Lognormal:
		return fmt.Sprintf("log-normal with median %v and p99 %v", d.A, d.B)
	}
	return fmt.Sprintf("fixed %v", d.A)
}
