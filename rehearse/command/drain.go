package command

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// drainReport is how far a drain has come.
type drainReport struct {
	Draining bool   `json:"draining"`
	Refusing bool   `json:"refusing"`
	InFlight uint64 `json:"in_flight"`
}

// Drain is "sluice drain".
func Drain() *cobra.Command {
	var a adminFlags
	var out format
	var undo, wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "drain",
		Short: "Have a running gateway take no new requests, without stopping it",
		Long: `Have a running gateway take no new requests, without stopping it. Readiness fails at
once, so that load balancers look elsewhere, and answers close their connections.
After shutdown.drain, what still comes is refused with 503 draining. Requests that run
finish. The dashboard, metrics and this command go on working; --undo takes it back.

The gateway has to allow it: admin.write: true.

Exit code 0: it drains (with --wait: and nothing runs any more); 1: it does not, or not
within --timeout; 4: the gateway cannot be asked.`,
		Example: `  sluice drain --wait
  sluice drain --undo`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if undo && wait {
				return usage(fmt.Errorf("--undo and --wait contradict each other; write one"))
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			method := http.MethodPost
			if undo {
				method = http.MethodDelete
			}
			r, err := a.drain(ctx, method)
			if err == nil && wait {
				r, err = a.drained(ctx, c, r)
			}
			if err != nil {
				return err
			}
			if out.json() {
				return wrote(writeJSON(c.OutOrStdout(), r))
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), r)
			return wrote(err)
		},
	}
	a.add(c)
	out.add(c)
	c.Flags().BoolVar(&undo, "undo", false, "take requests again")
	c.Flags().BoolVar(&wait, "wait", false, "wait until nothing comes in and no request runs any more")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return c
}

func (r drainReport) String() string {
	switch {
	case !r.Draining:
		return "it takes requests"
	case !r.Refusing:
		return fmt.Sprintf("draining: it is not ready, and still takes what comes; %d running", r.InFlight)
	case r.InFlight > 0:
		return fmt.Sprintf("draining: what comes is refused; %d still running", r.InFlight)
	}
	return "drained: what comes is refused, and nothing runs"
}

func (a *adminFlags) drain(ctx context.Context, method string) (r drainReport, err error) {
	_, err = a.ask(ctx, method, "/drain", &r)
	return r, err
}

// drained waits until nothing runs any more, and tells on the way what runs.
func (a *adminFlags) drained(ctx context.Context, c *cobra.Command, r drainReport) (drainReport, error) {
	for {
		if r.Refusing && r.InFlight == 0 {
			return r, nil
		}
		if !r.Draining {
			return r, found(fmt.Errorf("the gateway at %s drains no more: somebody else has undone it", a.address))
		}
		fmt.Fprintln(c.ErrOrStderr(), r)
		was := r
		for r == was {
			select {
			case <-ctx.Done():
				return r, found(fmt.Errorf("the gateway at %s is not drained after --timeout; %s", a.address, r))
			case <-time.After(200 * time.Millisecond):
			}
			var err error
			if r, err = a.drain(ctx, http.MethodGet); err != nil {
				return r, err
			}
		}
	}
}
