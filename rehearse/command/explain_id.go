package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/strict"
)

// decision is one that a gateway has made, as its admin listener shows it.
type decision struct {
	Time       time.Time `json:"ts"`
	ID         string    `json:"id"`
	Tenant     string    `json:"tenant"`
	Class      string    `json:"class"`
	Route      string    `json:"route"`
	Verdict    string    `json:"verdict"`
	Reason     string    `json:"reason"`
	Shadow     string    `json:"shadow,omitempty"`
	Status     int       `json:"status"`
	RetryAfter int64     `json:"retry_after,omitempty"`
	Outcome    string    `json:"outcome"`
	Failure    string    `json:"failure,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	Config     string    `json:"config"`

	// Path and Where are what decided in the configuration; "" where that is not
	// the one that is at hand.
	Path  string `json:"path,omitempty"`
	Where string `json:"where,omitempty"`
}

// explainID tells of a decision that a gateway remembers.
func explainID(c *cobra.Command, a *adminFlags, cfg *config.Config, id string, out format) error {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	var st struct {
		Tail []decision `json:"tail"`
	}
	if _, err := a.get(ctx, "/api/v1/state", &st); err != nil {
		return err
	}
	for i := range st.Tail {
		d := &st.Tail[i]
		if d.ID != id {
			continue
		}
		if d.Config == cfg.Source.Hash {
			d.Path = d.decidedBy(cfg)
			d.Where = fmt.Sprintf("%s:%d", cfg.Source.File, cfg.Line(d.Path))
		}
		if out.json() {
			return wrote(writeJSON(c.OutOrStdout(), d))
		}
		_, err := fmt.Fprint(c.OutOrStdout(), d.text(cfg))
		return wrote(err)
	}
	return found(fmt.Errorf("the gateway at %s does not remember %q: it keeps the last decisions, at most 20 a second of each reason; older ones are in its decision log, if it writes one", a.address, id))
}

// decidedBy is the path in the configuration of what decided, as far as the
// reason tells.
func (d *decision) decidedBy(cfg *config.Config) string {
	at, route := "unmatched", (*config.Route)(nil)
	for i := range cfg.Routes {
		if string(cfg.Routes[i].ID) == d.Route {
			at, route = strict.Index("routes", i), &cfg.Routes[i]
		}
	}
	reason := d.Reason
	if reason == "none" && d.Shadow != "" {
		reason = d.Shadow
	}
	switch {
	case strings.HasPrefix(reason, "tenant_m"):
		return "tenants.missing"
	case reason == "tenant_unknown":
		return "tenants.from"
	case route == nil:
		return at
	case reason == "tenant_limit":
		if route.Limit != nil {
			return at + ".limit"
		}
		if cfg.Tenants.Overrides[d.Tenant].Rate > 0 {
			return strict.Key("tenants.overrides", d.Tenant)
		}
		return "tenants.limit"
	case reason == "shed" || reason == "deferred":
		queue := strict.Key("queues", string(route.Queue))
		if _, ok := cfg.Queues[route.Queue].Shed[config.ID(d.Class)]; ok {
			return strict.Key(queue+".shed", d.Class)
		}
		return queue + ".max_useful_age"
	case reason == "signal_lost":
		return strict.Key("queues", string(route.Queue)) + ".signals"
	case reason == "origin_full" && route.MaxInFlight > 0:
		return at + ".max_in_flight"
	case reason == "origin_full":
		return "origin.max_in_flight"
	case strings.HasPrefix(reason, "key_") || reason == "store_unavailable" || d.Verdict == "replay":
		return at + ".idempotency"
	}
	return at
}

func (d *decision) text(cfg *config.Config) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("request", "%s, ended %s", d.ID, d.Time.Format(time.RFC3339Nano))
	line("route", "%s", d.Route)
	if d.Tenant != "" {
		line("tenant", "%s", d.Tenant)
	}
	line("class", "%s", d.Class)
	verdict := d.Verdict
	if d.Reason != "none" {
		verdict += ": " + d.Reason
	}
	if d.Shadow != "" {
		verdict += "; in shadow it would have been refused: " + d.Shadow
	}
	line("verdict", "%s", verdict)
	if d.Where != "" {
		line("decided by", "%s %s", d.Where, d.Path)
	} else {
		line("decided by", "a configuration that is not at hand (%s; %s is %s)", d.Config, cfg.Source.File, cfg.Source.Hash)
	}
	if d.Status != 0 {
		line("client got", "%d", d.Status)
		if d.RetryAfter > 0 {
			line("", "Retry-After: %d", d.RetryAfter)
		}
	}
	if d.Failure != "" {
		line("failed", "%s, outcome %s %s", d.Failure, d.Outcome, d.Detail)
	}
	return b.String()
}
