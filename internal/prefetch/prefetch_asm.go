//go:build amd64 || arm64

package prefetch

// Line asks for the cache line that an address is in, and does not wait for it.
// It reads nothing as far as the program can tell, so that the address may be
// that of memory which is written to, or gone.
func Line(address uintptr)
