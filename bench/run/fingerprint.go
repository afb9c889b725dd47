package run

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"sluice/bench/result"
)

// fingerprint says where this is measured.
func fingerprint(f *result.Fingerprint) {
	f.Machine, f.Go = Machine()
	if info, ok := debug.ReadBuildInfo(); ok {
		dirty := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				f.Commit = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
		f.Commit += dirty
	}
}

// Machine describes what this runs on, and the version of Go.
func Machine() (machine, goVersion string) {
	model, cores := cpus()
	return fmt.Sprintf("%s, %d cores, %s/%s, kernel %s", model, cores, runtime.GOOS, runtime.GOARCH, kernel()), runtime.Version()
}

// cpus of the machine, whether or not this process may use them all.
func cpus() (model string, n int) {
	model = "unknown CPU"
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "processor":
			n++
		case "model name":
			model = strings.TrimSpace(value)
		}
	}
	return model, max(n, 1)
}

func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
