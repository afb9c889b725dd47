//go:build !linux

package load

import "time"

func sharpen() {}

func nap(d time.Duration) { time.Sleep(d) }
