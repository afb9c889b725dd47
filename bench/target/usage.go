package target

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has cost so far. It is zero where the system does not
// tell.
type Usage struct {
	CPU        time.Duration // user and system time of all its threads
	PeakMemory int64         // most bytes resident at once
}

// tick is the unit of /proc's CPU times: USER_HZ, which Linux fixes at 100 for
// all programs.
const tick = time.Second / 100

// ProcessUsage reads the usage of a process and of its children that have
// ended.
func ProcessUsage(pid int) (u Usage) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	// The second field is a name in brackets that may hold anything.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) > 12 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		u.CPU = time.Duration(user+system) * tick
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			u.PeakMemory = kb << 10
		}
	}
	return u
}

// TreeUsage adds up the usage of a process and of all that descend from it.
// Memory that they share counts for each.
func TreeUsage(pid int) Usage {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], id)
		}
	}
	var sum Usage
	var add func(int)
	add = func(id int) {
		u := ProcessUsage(id)
		sum.CPU += u.CPU
		sum.PeakMemory += u.PeakMemory
		for _, c := range children[id] {
			add(c)
		}
	}
	add(pid)
	return sum
}
