package command

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// Top is "sluice top".
func Top() *cobra.Command {
	var a adminFlags
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running gateway in the terminal",
		Long: `Watch a running gateway in the terminal: what is offered, admitted and refused and
why, each queue's age, predicted wait and objective with the share admitted of each
class, tenants, routes, the store, and the latest decisions. It is the dashboard's
stream, and goes on across restarts of the gateway.

Keys: tab or 1 to 5 for another view, s for another order, / to filter, p to pause,
up and down to scroll, q to quit. NO_COLOR does without colours. Where the output is no
terminal, what "sluice status" shows is written once.

Exit code 0: ended by q or Ctrl-C; 4: the gateway cannot be asked.`,
		Example: "  sluice top --admin 127.0.0.1:9090",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !isTerminal(c.OutOrStdout()) || !isTerminal(c.InOrStdin()) {
				return topOnce(c, &a)
			}
			return a.top(c.Context(), tea.WithInput(c.InOrStdin()), tea.WithOutput(c.OutOrStdout()))
		},
	}
	a.add(c)
	return c
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// topOnce writes the status, for whoever is no terminal.
func topOnce(c *cobra.Command, a *adminFlags) error {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	var st status
	if _, err := a.get(ctx, "/status", &st); err != nil {
		return err
	}
	return wrote(st.write(c.OutOrStdout()))
}

// top shows the gateway until the program is ended.
func (a *adminFlags) top(ctx context.Context, options ...tea.ProgramOption) error {
	if ctx == nil {
		ctx = context.Background()
	}
	// A gateway that cannot be asked at all is told as such, not by an empty
	// screen.
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var st status
	if _, err := a.get(asking, "/status", &st); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := tea.NewProgram(newTopModel(a.address), append(options, tea.WithContext(ctx))...)
	followed := make(chan error, 1)
	go func() {
		err := a.follow(ctx, feed{
			state: func(s *feedState) { p.Send(s) },
			tick:  func(t *feedTick) { p.Send(t) },
			lost:  func(error) { p.Send(lostMsg{}) },
		})
		if err != nil {
			p.Quit() // it refuses now what it has told before
		}
		followed <- err
	}()
	_, err := p.Run()
	stop()
	if refused := <-followed; refused != nil {
		return refused
	}
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return wrote(err)
}
