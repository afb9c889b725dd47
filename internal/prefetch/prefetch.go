// Package prefetch asks the processor for memory before it is needed. A table
// with a place for each of a million tenants is in no cache; a place that is
// asked for as soon as the tenant is known is there when it is looked at.
package prefetch
