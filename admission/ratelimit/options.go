package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/time/rate"

	"sluice/admission"
)

// Options is a rate limit policy.
type Options struct {
	// MaxTenants is how many buckets each limit keeps beside those of its
	// overrides. At least MinTenants. A bucket takes 85 to 171 bytes, its share of
	// the free places among them included, however long the name.
	MaxTenants int

	// Seed of the hashes that tenants go by; 0: a random one. A gate keeps the one
	// that it was made with.
	Seed uint64

	// Tenants limits the requests that no limit of a route applies to; nil:
	// they are not limited.
	Tenants *Limit

	// Routes holds the limits that routes have of their own, by Route.ID.
	Routes map[string]*Limit
}

// Limit gives each tenant a bucket of its own.
type Limit struct {
	// Name is what clients see in the RateLimit fields.
	Name string

	// Quota of every tenant that Overrides does not name.
	Quota

	// Overrides holds quotas of tenants by name.
	Overrides map[string]Quota
}

// Quota is the size of a bucket. The zero value lets nothing pass.
type Quota struct {
	Rate  rate.Limit // tokens a second; rate.Inf: not limited
	Burst int        // most that can be spent at once
	Mode  admission.Mode
}

const (
	// MinTenants is the least that Options.MaxTenants can be: fewer would leave
	// some of the table's parts without a bucket.
	MinTenants = 1000

	// MaxBurst is the most that Quota.Burst can be. Token counts up to here are
	// exact to a millionth in a float64.
	MaxBurst = 1 << 32

	// MaxRate is the most that a finite Quota.Rate can be.
	MaxRate = 1e9
)

// Unlimited reports whether the quota limits nothing.
func (q Quota) Unlimited() bool { return q.Rate == rate.Inf }

// Validate reports everything that is wrong with o, or nil.
func (o Options) Validate() error {
	var errs []error
	if o.MaxTenants < MinTenants {
		errs = append(errs, fmt.Errorf("max tenants is %d, want at least %d", o.MaxTenants, MinTenants))
	}
	if o.Tenants != nil {
		errs = o.Tenants.validate("tenants", errs)
	}
	for _, id := range slices.Sorted(maps.Keys(o.Routes)) {
		l := o.Routes[id]
		if l == nil {
			errs = append(errs, fmt.Errorf("route %q: limit is nil, want one or no entry", id))
			continue
		}
		errs = l.validate(fmt.Sprintf("route %q", id), errs)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("ratelimit: %w", errors.Join(errs...))
}

func (l *Limit) validate(where string, errs []error) []error {
	if l.Name == "" {
		errs = append(errs, fmt.Errorf("%s: limit has no name, want the one that clients are to see", where))
	}
	errs = l.Quota.validate(where, errs)
	for _, tenant := range slices.Sorted(maps.Keys(l.Overrides)) {
		errs = l.Overrides[tenant].validate(fmt.Sprintf("%s: override of %q", where, tenant), errs)
	}
	return errs
}

func (q Quota) validate(where string, errs []error) []error {
	if q.Unlimited() {
		return errs
	}
	if r := float64(q.Rate); math.IsNaN(r) || r < 0 || r > MaxRate {
		errs = append(errs, fmt.Errorf("%s: rate is %v a second, want 0 to %g or infinite", where, r, MaxRate))
	}
	if q.Burst < 0 || q.Burst > MaxBurst {
		errs = append(errs, fmt.Errorf("%s: burst is %d, want 0 to %d", where, q.Burst, MaxBurst))
	}
	return errs
}
