//go:build race

package proxy

// raced tells that the race detector is on, which costs memory, allocates by
// itself and bears few goroutines.
const raced = true
