package signals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/shedding"
)

// HTTPOptions describes a JSON document over HTTP that tells about a queue.
type HTTPOptions struct {
	URL    string
	Header map[string]string // sent along, for example Authorization
	// JSON pointers (RFC 6901) to the figures; "": not there. Age or Depth is
	// required.
	Age, Depth, Done string
	// SampledAt points to when the figures were true: Unix time, or a string
	// as in RFC 3339. With it, a cached document is told from a live one.
	SampledAt string
	// Unit of the age, and of a Unix time: "s" (also ""), "ms", "us" or "ns".
	Unit string
}

// HTTP reads a queue's figures from a JSON document. A figure that is null or
// missing is not known; a document without any is an error.
type HTTP struct {
	opts   HTTPOptions
	client *http.Client
	scale  float64 // seconds in one unit
}

// maxBody is the largest answer that is read.
const maxBody = 1 << 20

var units = map[string]float64{"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

// NewHTTP returns a reader.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, fmt.Errorf("signals: http: %w", err)
	}
	scale, ok := units[o.Unit]
	if !ok {
		return nil, fmt.Errorf("signals: http: Unit is %q, want s, ms, us or ns", o.Unit)
	}
	if o.Age == "" && o.Depth == "" {
		return nil, errors.New("signals: http: neither Age nor Depth is given, want a JSON pointer to one of them")
	}
	for _, p := range []string{o.Age, o.Depth, o.Done, o.SampledAt} {
		if p != "" && p[0] != '/' {
			return nil, fmt.Errorf("signals: http: %q is no JSON pointer, want /like/this", p)
		}
	}
	return &HTTP{opts: o, client: newHTTPClient(), scale: scale}, nil
}

// checkURL reports what is wrong with an HTTP URL, without the password in it.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("URL cannot be read, want http://host:port/path or https://")
	}
	return nil
}

// newHTTPClient returns a client with one connection of its own. It follows no
// redirects: they could lead anywhere.
func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 1, 1
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// get fetches a document and decodes it. Numbers are left as they are written.
func get(ctx context.Context, c *http.Client, address string, header map[string]string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	req.Header.Set("Accept", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := c.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			return u.Err // without the URL, which may hold a password
		}
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", res.StatusCode)
	case len(body) > maxBody:
		return fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	return nil
}

// Read implements [Reader].
func (h *HTTP) Read(ctx context.Context) (shedding.Sample, error) {
	var doc any
	if err := get(ctx, h.client, h.opts.URL, h.opts.Header, &doc); err != nil {
		return shedding.Sample{}, err
	}
	return h.sample(doc)
}

func (h *HTTP) sample(doc any) (shedding.Sample, error) {
	var s shedding.Sample
	var err error
	for _, f := range []struct {
		pointer string
		into    *shedding.Value
		scale   float64
	}{{h.opts.Age, &s.Age, h.scale}, {h.opts.Depth, &s.Depth, 1}, {h.opts.Done, &s.Done, 1}} {
		if f.pointer == "" {
			continue
		}
		if *f.into, err = number(pointed(doc, f.pointer), f.scale); err != nil {
			return shedding.Sample{}, fmt.Errorf("%s: %w", f.pointer, err)
		}
	}
	if _, age := s.Age.Get(); !age {
		if _, depth := s.Depth.Get(); !depth {
			return shedding.Sample{}, errors.New("neither age nor depth is in the answer")
		}
	}
	if h.opts.SampledAt != "" {
		if s.At, err = moment(pointed(doc, h.opts.SampledAt), h.scale); err != nil {
			return shedding.Sample{}, fmt.Errorf("%s: %w", h.opts.SampledAt, err)
		}
	}
	return s, nil
}

// Close implements [Reader].
func (h *HTTP) Close() error { h.client.CloseIdleConnections(); return nil }

// pointed follows a JSON pointer (RFC 6901); nil where it leads nowhere.
func pointed(doc any, pointer string) any {
	for _, token := range strings.Split(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch d := doc.(type) {
		case map[string]any:
			doc = d[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(d) {
				return nil
			}
			doc = d[i]
		default:
			return nil
		}
	}
	return doc
}

// number reads a figure. Null is not known. Text is accepted where it is a
// number, NaN and infinities too: it is not for readers to hide them.
func number(v any, scale float64) (shedding.Value, error) {
	var text string
	switch v := v.(type) {
	case nil:
		return shedding.Value{}, nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return shedding.Value{}, fmt.Errorf("%T is no number", v)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return shedding.Value{}, fmt.Errorf("%q is no number", text)
	}
	return shedding.Known(f * scale), nil
}

// moment reads a time: text as in RFC 3339, or a number of units since 1970.
func moment(v any, scale float64) (time.Time, error) {
	if text, ok := v.(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t, nil
		}
	}
	n, err := number(v, scale)
	if err != nil {
		return time.Time{}, err
	}
	f, known := n.Get()
	if !known || math.IsNaN(f) || f <= 0 || f > 1e11 {
		return time.Time{}, errors.New("no time of the sample is given")
	}
	sec, frac := math.Modf(f)
	return time.Unix(int64(sec), int64(frac*1e9)), nil
}
