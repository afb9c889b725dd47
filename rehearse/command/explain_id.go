package command

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/strict"
	"sluice/rehearse/explain"
	"sluice/rehearse/recording"
	"sluice/rehearse/replay"
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

// explainID tells of a decision that a gateway remembers: step by step where it
// can make the decision again, and otherwise what became of the request.
func explainID(c *cobra.Command, a *adminFlags, cfg *config.Config, id string, out format) error {
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	var told struct {
		Decision    *decision            `json:"decision"`
		Explanation *explain.Explanation `json:"explanation"`
		Without     string               `json:"without"`
	}
	body, err := a.get(ctx, "/explain?id="+url.QueryEscape(id), &told)
	switch {
	case err != nil:
		return err
	case out.json():
		_, err := c.OutOrStdout().Write(indented(body))
		return wrote(err)
	case told.Explanation != nil:
		return wrote(told.Explanation.WriteText(c.OutOrStdout()))
	case told.Decision == nil:
		return found(fmt.Errorf("the gateway at %s tells nothing of %q", a.address, id))
	}
	d := told.Decision
	if d.Config == cfg.Source.Hash {
		d.Path = d.decidedBy(cfg)
		d.Where = fmt.Sprintf("%s:%d", cfg.Source.File, cfg.Line(d.Path))
	}
	text := d.text(cfg)
	if told.Without != "" {
		text += fmt.Sprintf("%-11s %s\n", "that is all", told.Without)
	}
	_, err = fmt.Fprint(c.OutOrStdout(), text)
	return wrote(err)
}

// explainRecorded tells a decision from the files that it was recorded in.
func explainRecorded(c *cobra.Command, cfg *config.Config, files []string, id string, seed uint64, out format) error {
	rec, err := recording.ReadFiles(c.InOrStdin(), files...)
	if err != nil {
		return usage(err)
	}
	d := rec.Find(id)
	if d == nil {
		return found(fmt.Errorf("there is no decision about %q in %s: it may be one that was not to be written", id, strings.Join(files, ", ")))
	}
	e, err := replay.Explain(cfg, rec, d, seed)
	if err != nil {
		return found(err)
	}
	if out.json() {
		return wrote(e.WriteJSON(c.OutOrStdout()))
	}
	return wrote(e.WriteText(c.OutOrStdout()))
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
