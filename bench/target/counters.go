package target

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Counters are the gateway's own, as its /metrics tells them.
type Counters struct {
	Received int64
	// Verdicts by name, enforced decisions only: admit, replay, refuse.
	Verdicts map[string]int64
	// Reasons of refusals.
	Reasons map[string]int64
	// Failures after admission, by reason.
	Failures map[string]int64
	// Config is the hash of the config in force.
	Config, Version string
}

// Minus is what was counted between o and c.
func (c *Counters) Minus(o *Counters) *Counters {
	sub := func(a, b map[string]int64) map[string]int64 {
		d := map[string]int64{}
		for k, v := range a {
			if v -= b[k]; v != 0 {
				d[k] = v
			}
		}
		return d
	}
	return &Counters{
		Received: c.Received - o.Received,
		Verdicts: sub(c.Verdicts, o.Verdicts), Reasons: sub(c.Reasons, o.Reasons), Failures: sub(c.Failures, o.Failures),
		Config: c.Config, Version: c.Version,
	}
}

// ReadCounters asks an admin listener for the gateway's counters.
func ReadCounters(ctx context.Context, admin string) (*Counters, error) {
	var c *Counters
	err := scrape(ctx, admin, func(r io.Reader) (err error) {
		c, err = parseCounters(r)
		return err
	})
	return c, err
}

func parseCounters(r io.Reader) (*Counters, error) {
	c := &Counters{Verdicts: map[string]int64{}, Reasons: map[string]int64{}, Failures: map[string]int64{}}
	found := false
	err := samples(r, func(name string, labels map[string]string, v float64) {
		n := int64(v)
		switch name {
		case "sluice_requests_received_total":
			c.Received, found = n, true
		case "sluice_decisions_total":
			if labels["mode"] != "enforce" {
				return
			}
			c.Verdicts[labels["verdict"]] += n
			if labels["verdict"] == "refuse" {
				c.Reasons[labels["reason"]] += n
			}
		case "sluice_request_failures_total":
			c.Failures[labels["reason"]] += n
		case "sluice_config_info":
			c.Config = labels["hash"]
		case "sluice_build_info":
			c.Version = labels["version"]
		}
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("target: the metrics have no sluice_requests_received_total; is this a gateway's admin listener?")
	}
	return c, nil
}

// samples calls each with every sample of metrics in the Prometheus text format.
func samples(r io.Reader, each func(name string, labels map[string]string, v float64)) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if name, labels, v, ok := sample(in.Text()); ok {
			each(name, labels, v)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("target: reading metrics: %w", err)
	}
	return nil
}

// sample reads one line of the Prometheus text format.
func sample(line string) (name string, labels map[string]string, v float64, ok bool) {
	if line == "" || line[0] == '#' {
		return
	}
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return
	}
	name, line = line[:end], line[end:]
	labels = map[string]string{}
	if line[0] == '{' {
		line = line[1:]
		for line != "" && line[0] != '}' {
			key, rest, found := strings.Cut(line, "=")
			if !found {
				return
			}
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return
			}
			value, err := strconv.Unquote(quoted)
			if err != nil {
				return
			}
			labels[key] = value
			line = strings.TrimPrefix(rest[len(quoted):], ",")
		}
		line = strings.TrimPrefix(line, "}")
	}
	number, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	v, err := strconv.ParseFloat(number, 64)
	return name, labels, v, err == nil
}
