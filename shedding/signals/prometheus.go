package signals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"sluice/shedding"
)

// PrometheusOptions describes a queue's metrics in Prometheus, or in anything
// with its HTTP API.
type PrometheusOptions struct {
	URL    string            // of the server, without /api/v1
	Header map[string]string // sent along, for example Authorization
	// Queries in PromQL, each of which has to come to exactly one number; "":
	// none. Age, in seconds, or Depth is required.
	Age, Depth, Done string
	// Timestamp is a query for when the figures were true, in Unix time. ""
	// asks for the timestamp of the first query, which has to be a plain
	// selector then: of anything computed, Prometheus says that it is as of
	// now.
	Timestamp string
}

// Prometheus reads a queue's metrics. The server answers long after it has lost
// its target, and always as of now; so the time of the sample itself is asked
// for as well, and a query without an answer is an error.
type Prometheus struct {
	opts   PrometheusOptions
	client *http.Client
}

var plainSelector = regexp.MustCompile(`^\s*[a-zA-Z_:][a-zA-Z0-9_:]*\s*(\{[^{}]*\})?\s*$`)

// NewPrometheus returns a reader.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, fmt.Errorf("signals: prometheus: %w", err)
	}
	first := o.Age
	if first == "" {
		first = o.Depth
	}
	if first == "" {
		return nil, errors.New("signals: prometheus: neither Age nor Depth is given, want a query for one of them")
	}
	if o.Timestamp == "" {
		if !plainSelector.MatchString(first) {
			return nil, fmt.Errorf("signals: prometheus: %q is computed, so Prometheus would call it fresh forever; give Timestamp, such as min(timestamp(metric))", first)
		}
		o.Timestamp = "timestamp(" + strings.TrimSpace(first) + ")"
	}
	return &Prometheus{opts: o, client: newHTTPClient()}, nil
}

// Read implements [Reader].
func (p *Prometheus) Read(ctx context.Context) (shedding.Sample, error) {
	var s shedding.Sample
	var at shedding.Value
	for _, q := range []struct {
		name, query string
		into        *shedding.Value
	}{
		{"age", p.opts.Age, &s.Age}, {"depth", p.opts.Depth, &s.Depth},
		{"done", p.opts.Done, &s.Done}, {"timestamp", p.opts.Timestamp, &at},
	} {
		if q.query == "" {
			continue
		}
		v, err := p.query(ctx, q.query)
		if err != nil {
			return shedding.Sample{}, fmt.Errorf("query for %s: %w", q.name, err)
		}
		*q.into = v
	}
	t, _ := at.Get()
	when, err := moment(json.Number(fmt.Sprint(t)), 1)
	if err != nil {
		return shedding.Sample{}, fmt.Errorf("timestamp: %w", err)
	}
	s.At = when
	return s, nil
}

// query asks for exactly one number.
func (p *Prometheus) query(ctx context.Context, q string) (shedding.Value, error) {
	var doc struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	address := strings.TrimRight(p.opts.URL, "/") + "/api/v1/query?query=" + url.QueryEscape(q)
	if err := get(ctx, p.client, address, p.opts.Header, &doc); err != nil {
		return shedding.Value{}, err
	}
	if doc.Status != "success" {
		return shedding.Value{}, fmt.Errorf("status %q: %s", doc.Status, doc.Error)
	}
	var pair []any
	switch doc.Data.ResultType {
	case "scalar":
		if err := json.Unmarshal(doc.Data.Result, &pair); err != nil {
			return shedding.Value{}, err
		}
	case "vector":
		var series []struct{ Value []any }
		if err := json.Unmarshal(doc.Data.Result, &series); err != nil {
			return shedding.Value{}, err
		}
		if len(series) != 1 {
			return shedding.Value{}, fmt.Errorf("%d series, want exactly one", len(series))
		}
		pair = series[0].Value
	default:
		return shedding.Value{}, fmt.Errorf("a %s, want one number", doc.Data.ResultType)
	}
	if len(pair) != 2 {
		return shedding.Value{}, errors.New("no value in the answer")
	}
	text, ok := pair[1].(string)
	if !ok {
		return shedding.Value{}, errors.New("no value in the answer")
	}
	return number(text, 1)
}

// Close implements [Reader].
func (p *Prometheus) Close() error { p.client.CloseIdleConnections(); return nil }
