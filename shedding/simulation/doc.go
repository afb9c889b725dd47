// Package simulation puts the shedding gate in front of a simulated queue and
// lets time run.
//
// The gate is the real one, deciding request by request. Simulated are what is
// around it: clients that come back or do not, a first-in-first-out queue with
// workers whose speed changes, and signals that are read rarely and arrive
// late. Time moves in steps of a quarter of a second, arrivals and completions
// are Poisson, and a run is repeated exactly by its seed.
//
// How good a run was is told in two ways: work completed before it was too
// old, against what an oracle could have done that knows all future capacity,
// and the oldest age that the queue reached.
package simulation
