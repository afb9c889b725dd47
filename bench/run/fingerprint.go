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
	f.Go = runtime.Version()
	f.Machine = fmt.Sprintf("%s, %d cores, %s/%s, kernel %s", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, kernel())
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

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

func kernel() string {
	data, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}
