package target

import (
	"os/exec"
	"runtime"
)

// Spawn starts a program that ends no later than this one, however this one
// ends, and that Ctrl-C on a terminal does not reach: whoever spawned it ends it.
// The channel gets what [exec.Cmd.Wait] returns.
func Spawn(cmd *exec.Cmd) (<-chan error, error) {
	bind(cmd)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The system ends a child with the thread that started it, so this thread
		// is kept for as long as the child lives, and ends with it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
