//go:build !amd64 && !arm64

package prefetch

// Line does nothing here.
func Line(uintptr) {}
