package load

import (
	"syscall"
	"time"
)

// sharpen asks the kernel to wake the calling thread as close to its time as it
// can, in place of the 50µs by which it may group timers.
func sharpen() {
	const prSetTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
}

// nap sleeps for about d. The runtime's own timers are good to a millisecond
// when a process is idle, which is too coarse for intended times.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // woken early, the caller looks at the clock again
}
