package ratelimit

import "sluice/admission"

// cost returns what r costs in tokens, before it is cut to the burst.
func cost(r *admission.Request) int64 {
	route := r.Route
	if route == nil {
		return 1
	}
	base := max(route.Cost, 1)
	if route.CostBy == "" || route.CostCap <= base || r.Header == nil {
		return base
	}
	switch value, count := r.Header.Get(route.CostBy); count {
	case 0:
		return base
	case 1:
		return max(base, parseCost(value, route.CostCap))
	}
	return route.CostCap
}

// parseCost reads a decimal number no larger than limit. It returns the limit
// for a larger number and for anything that is not a number; see the package
// comment for why.
func parseCost(s string, limit int64) int64 {
	if s == "" {
		return limit
	}
	n := int64(0)
	for i := range len(s) {
		digit := int64(s[i]) - '0'
		if digit < 0 || digit > 9 {
			return limit
		}
		if n > (limit-digit)/10 {
			n = limit // and go on: what follows may not be digits
			continue
		}
		n = n*10 + digit
	}
	return min(n, limit)
}
