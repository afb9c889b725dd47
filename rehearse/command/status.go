package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/config/value"
)

// status is the part of a gateway's status that is shown as text.
type status struct {
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Now      time.Time `json:"now"`
	Mode     string    `json:"mode"`
	Draining bool      `json:"draining"`
	NotReady string    `json:"not_ready"`
	Config   struct {
		Path           string    `json:"path"`
		Hash           string    `json:"hash"`
		Loaded         time.Time `json:"loaded"`
		ReloadError    string    `json:"reload_error"`
		RestartPending []string  `json:"restart_pending"`
	} `json:"config"`
	Listeners []struct {
		Name    string `json:"name"`
		Address string `json:"address"`
	} `json:"listeners"`
	Origin struct {
		Addresses []struct {
			Address   string `json:"address"`
			Healthy   bool   `json:"healthy"`
			InFlight  int    `json:"in_flight"`
			LastError string `json:"last_error"`
		} `json:"addresses"`
	} `json:"origin"`
	Totals struct {
		Received uint64            `json:"received"`
		InFlight uint64            `json:"in_flight"`
		Verdicts map[string]uint64 `json:"verdicts"`
		Refused  map[string]uint64 `json:"refused"`
		Shadow   map[string]uint64 `json:"shadow"`
		Failed   map[string]uint64 `json:"failed"`
	} `json:"totals"`
	Classes []struct {
		Class string `json:"class"`
		rates
	} `json:"classes"`
	Routes []struct {
		Route   string            `json:"route"`
		Mode    string            `json:"mode"`
		LastHit *time.Time        `json:"last_hit"`
		Shadow  map[string]uint64 `json:"shadow"`
		rates
	} `json:"routes"`
	Tenants []struct {
		Tenant string `json:"tenant"`
		rates
	} `json:"tenants"`
	Sections struct {
		Queues map[string]struct {
			Wait   *float64           `json:"wait_seconds"`
			Limit  float64            `json:"max_useful_age_seconds"`
			Shares map[string]float64 `json:"share_admitted"`
			Mode   string             `json:"mode"`
			Closed bool               `json:"closed"`
		} `json:"queues"`
		Signals map[string]struct {
			Health string   `json:"health"`
			Error  string   `json:"error"`
			Age    *float64 `json:"age_seconds"`
			Depth  *float64 `json:"depth"`
			Read   *float64 `json:"read_ago_seconds"`
		} `json:"signals"`
		Keys *keyCounts `json:"idempotency"`
	} `json:"sections"`
}

// keyCounts is what became of requests with idempotency keys, and of the store.
type keyCounts struct {
	Store    string            `json:"store"`
	Requests map[string]uint64 `json:"requests"`
	Errors   uint64            `json:"store_errors"`
	Down     uint64            `json:"refused_store_down"`
	Running  int               `json:"running"`
	InDoubt  uint64            `json:"put_in_doubt"`
}

func (k *keyCounts) String() string {
	text := fmt.Sprintf("%s; %s", k.Store, counts(positive(k.Requests)))
	if k.InDoubt > 0 {
		text += fmt.Sprintf("; put in doubt: %d", k.InDoubt)
	}
	if k.Errors+k.Down > 0 {
		text += fmt.Sprintf("; %d store errors, %d requests refused for them", k.Errors, k.Down)
	}
	return text
}

// positive leaves out what never happened.
func positive(n map[string]uint64) map[string]uint64 {
	n = maps.Clone(n)
	maps.DeleteFunc(n, func(_ string, n uint64) bool { return n == 0 })
	return n
}

type rates struct {
	Admit      uint64  `json:"admit"`
	Replay     uint64  `json:"replay"`
	Refuse     uint64  `json:"refuse"`
	AdmitRate  float64 `json:"admit_rate"`
	ReplayRate float64 `json:"replay_rate"`
	RefuseRate float64 `json:"refuse_rate"`
}

// Status is "sluice status".
func Status() *cobra.Command {
	var a adminFlags
	var out format
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how a running gateway is doing",
		Long: `Show how a running gateway is doing: its configuration, the origin, what it decided,
and the queues. With --format json, everything that its admin listener tells.

Exit code 0: it was asked, and takes requests; 1: it does not take requests, or its
last reload failed; 4: it cannot be asked.`,
		Example: "  sluice status --admin 127.0.0.1:9090",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			defer cancel()
			var st status
			body, err := a.get(ctx, "/status", &st)
			if err != nil {
				return err
			}
			if out.json() {
				_, err = c.OutOrStdout().Write(indented(body))
			} else {
				err = st.write(c.OutOrStdout())
			}
			if err == nil && (st.NotReady != "" || st.Config.ReloadError != "") {
				return Exit{ExitFindings, nil}
			}
			return wrote(err)
		},
	}
	a.add(c)
	out.add(c)
	return c
}

// indented is JSON as people read it.
func indented(body []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(body), "", "  ") != nil {
		return body
	}
	return append(b.Bytes(), '\n')
}

func (s *status) write(w io.Writer) error {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, fmt.Sprintf(format, args...))
	}

	state := "takes requests"
	if s.NotReady != "" {
		state = "takes no requests: " + s.NotReady
	}
	line("gateway", "%s, up %s, %s", s.Version, ago(s.Now, s.Started), state)
	path := s.Config.Path
	if path == "" {
		path = "built in"
	}
	line("config", "%s (%s), loaded %s ago", path, s.Config.Hash, ago(s.Now, s.Config.Loaded))
	if s.Config.ReloadError != "" {
		line("", "THE LAST RELOAD FAILED, and what was running still is:")
		line("", "%s", strings.ReplaceAll(s.Config.ReloadError, "\n", "\n           "))
	}
	if len(s.Config.RestartPending) > 0 {
		line("", "takes effect at the next start only: %s", strings.Join(s.Config.RestartPending, ", "))
	}
	for _, l := range s.Listeners {
		line("listens", "%s, for %s", l.Address, l.Name)
	}
	for _, o := range s.Origin.Addresses {
		health := "healthy"
		if !o.Healthy {
			health = "left out"
		}
		if o.LastError != "" {
			health += "; last error: " + o.LastError
		}
		line("origin", "%s, %d in flight, %s", o.Address, o.InFlight, health)
	}
	t := &s.Totals
	line("requests", "%d received, %d running", t.Received, t.InFlight)
	line("decided", "%s", counts(t.Verdicts))
	for _, part := range []struct {
		name  string
		count map[string]uint64
	}{{"refused", t.Refused}, {"failed", t.Failed}, {"in shadow", t.Shadow}} {
		if len(part.count) > 0 {
			line(part.name, "%s", counts(part.count))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sections.Queues)) {
		q := s.Sections.Queues[name]
		wait := "wait not known"
		if q.Wait != nil {
			wait = "wait " + span(*q.Wait)
		}
		var shares []string
		for _, c := range s.Classes {
			if share, ok := q.Shares[c.Class]; ok {
				shares = append(shares, fmt.Sprintf("%s %.0f%%", c.Class, share*100))
			}
		}
		note := ""
		if q.Mode == "shadow" {
			note = " (shadow)"
		}
		if q.Closed {
			note += " (closed: a signal is lost)"
		}
		line("queue", "%s: %s of %s; admits %s%s", name, wait, span(q.Limit), strings.Join(shares, ", "), note)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sections.Signals)) {
		if sig := s.Sections.Signals[name]; sig.Health != "fresh" || sig.Error != "" {
			text := sig.Health
			if sig.Error != "" {
				text += ": " + sig.Error
			}
			line("signal", "%s is %s", name, text)
		}
	}
	if k := s.Sections.Keys; k != nil {
		line("keys", "%s", k)
	}
	s.routes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// routes shows what was decided by route.
func (s *status) routes(b *strings.Builder) {
	if len(s.Routes) == 0 {
		return
	}
	name := len("route")
	for _, r := range s.Routes {
		name = max(name, len(r.Route))
	}
	fmt.Fprintf(b, "\n%-*s  %10s %10s %10s  %10s %10s\n", name, "route", "admitted", "replayed", "refused", "admitted/s", "refused/s")
	for _, r := range s.Routes {
		fmt.Fprintf(b, "%-*s  %10d %10d %10d  %10.1f %10.1f", name, r.Route, r.Admit, r.Replay, r.Refuse, r.AdmitRate, r.RefuseRate)
		if r.Mode == "shadow" {
			b.WriteString("  shadow")
		}
		b.WriteByte('\n')
	}
}

// counts lists numbers by name, the largest first.
func counts(n map[string]uint64) string {
	names := slices.Sorted(maps.Keys(n))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case n[a] > n[b]:
			return -1
		case n[a] < n[b]:
			return 1
		}
		return 0
	})
	if len(names) == 0 {
		return "nothing yet"
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, n[name])
	}
	return strings.Join(names, ", ")
}

func ago(now, then time.Time) string { return span(now.Sub(then).Seconds()) }

// span shows seconds as a time.
func span(seconds float64) string {
	d := time.Duration(max(seconds, 0) * float64(time.Second))
	to := 100 * time.Millisecond
	switch {
	case d >= time.Hour:
		to = time.Minute
	case d >= time.Minute:
		to = time.Second
	}
	return value.Duration(d.Round(to)).String()
}

// Reload is "sluice reload".
func Reload() *cobra.Command {
	var a adminFlags
	var out format
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have a running gateway load its configuration again",
		Long: `Have a running gateway load its configuration again, and show what changed. A file
that is wrong changes nothing.

Exit code 0: it runs what the file says; 1: the file is wrong, and what was running
still is; 4: the gateway cannot be asked.`,
		Example: "  sluice reload --admin 127.0.0.1:9090",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
			defer cancel()
			var r struct {
				Hash           string   `json:"hash"`
				Changed        []string `json:"changed"`
				Kept           int      `json:"buckets_kept"`
				Rescaled       int      `json:"buckets_rescaled"`
				RestartPending []string `json:"restart_pending"`
			}
			body, err := a.ask(ctx, "POST", "/reload", &r)
			w := c.OutOrStdout()
			switch {
			case out.json() && body != nil:
				if _, writeErr := w.Write(indented(body)); writeErr != nil {
					return found(writeErr)
				}
				return err
			case err != nil:
				return err
			}
			fmt.Fprintf(w, "it runs %s\n", r.Hash)
			if len(r.Changed) == 0 {
				fmt.Fprintln(w, "nothing changed")
			}
			for _, path := range r.Changed {
				fmt.Fprintf(w, "changed: %s\n", path)
			}
			if r.Kept+r.Rescaled > 0 {
				fmt.Fprintf(w, "buckets: %d kept, %d rescaled\n", r.Kept, r.Rescaled)
			}
			for _, path := range r.RestartPending {
				fmt.Fprintf(w, "takes effect at the next start only: %s\n", path)
			}
			return nil
		},
	}
	a.add(c)
	out.add(c)
	return c
}
