package explain

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"sluice/config"
	"sluice/config/strict"
	"sluice/config/value"
	"sluice/rehearse/spec"
)

// ParseQuestion reads a question about a policy from YAML or JSON. name is shown
// in its error, which is [strict.Problems].
func ParseQuestion(name string, data []byte, cfg *config.Config) (*Question, error) {
	q := &Question{}
	doc := strict.Source{Name: name, Data: data}.Decode(q)
	check := spec.Checker{Document: doc, Policy: cfg}
	check.Request("request", &q.Request)
	check.Signals("signals", q.Signals)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return q, nil
}

// ParseHeader reads a header field as it is written on a command line:
// "Name: value".
func ParseHeader(text string) (config.HeaderName, string, error) {
	name, val, ok := strings.Cut(text, ":")
	var h config.HeaderName
	if !ok {
		return "", "", fmt.Errorf("%q is not a header field; write it as 'Name: value'", text)
	}
	if err := h.UnmarshalText([]byte(name)); err != nil {
		return "", "", err
	}
	return h, textproto.TrimString(val), nil
}

// ParseSignal reads what a signal is given to read as it is written on a command
// line: orders=age:42s,depth:1000,done:20/s, or orders=silent.
func ParseSignal(text string) (name string, reading spec.Reading, err error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok || name == "" || list == "" {
		return "", reading, fmt.Errorf("%q is not a signal; write it as QUEUE=age:42s,depth:1000,done:20/s or QUEUE=silent", text)
	}
	for part := range strings.SplitSeq(list, ",") {
		key, val, _ := strings.Cut(part, ":")
		var err error
		switch key {
		case "age":
			reading.Age = new(value.Duration)
			err = reading.Age.UnmarshalText([]byte(val))
		case "depth":
			reading.Depth = new(int64)
			if n, scanErr := fmt.Sscanf(val, "%d", reading.Depth); n != 1 || scanErr != nil || fmt.Sprint(*reading.Depth) != val || *reading.Depth < 0 {
				err = fmt.Errorf("%q is not a whole number, 0 or more", val)
			}
		case "done":
			reading.Done = new(value.Rate)
			err = reading.Done.UnmarshalText([]byte(val))
		case "silent":
			reading.Silent = true
		case "frozen":
			reading.Frozen = true
		default:
			err = fmt.Errorf("%q is none of age, depth, done, silent and frozen", key)
			if near := strict.Nearest(key, []string{"age", "depth", "done", "silent", "frozen"}); near != "" {
				err = fmt.Errorf("%w; did you mean %s?", err, near)
			}
		}
		if err != nil {
			return "", reading, fmt.Errorf("%s: %w", text, err)
		}
	}
	if !reading.Silent && reading.Age == nil && reading.Depth == nil {
		return "", reading, errors.New(text + ": it says neither age nor depth; write one of them, or silent")
	}
	return name, reading, nil
}
