package signals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"sluice/shedding"
)

// Push is the signal that the origin tells by itself: in a response header, or
// posted to the admin listener. Offers come in at any time and from any number
// of instances of the origin, which may disagree; a reading is the worst of
// what was offered since the reading before. Without an offer it is an error.
//
// Offer and Read are safe for concurrent use.
type Push struct {
	mu   sync.Mutex
	seen bool
	held shedding.Sample
}

var errNothingPushed = errors.New("nothing was pushed since the last reading")

// Offer hands in figures. Ages and depths that are worse, and counters and
// times that are later, replace what was offered before.
func (p *Push) Offer(s shedding.Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen {
		p.seen, p.held = true, s
		return
	}
	p.held.Age = worse(p.held.Age, s.Age)
	p.held.Depth = worse(p.held.Depth, s.Depth)
	p.held.Done = worse(p.held.Done, s.Done)
	if s.At.After(p.held.At) {
		p.held.At = s.At
	}
}

// worse is the larger of two values. A NaN is worse than any number, so that
// it is seen.
func worse(a, b shedding.Value) shedding.Value {
	x, known := a.Get()
	y, other := b.Get()
	if !known || other && (y > x || y != y) {
		return b
	}
	return a
}

// Read implements [Reader].
func (p *Push) Read(context.Context) (shedding.Sample, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen {
		return shedding.Sample{}, errNothingPushed
	}
	s := p.held
	p.seen, p.held = false, shedding.Sample{}
	return s, nil
}

// Close implements [Reader].
func (p *Push) Close() error { return nil }

// ParseHeader reads a response header such as
//
//	age=12.5, depth=300, done=12345, at=1767225600
//
// with the age in seconds and the time in seconds of Unix time. Age or depth
// has to be there.
func ParseHeader(value string) (shedding.Sample, error) {
	figures := map[string]any{}
	for _, member := range strings.Split(value, ",") {
		name, text, ok := strings.Cut(strings.Trim(member, " \t"), "=")
		if !ok {
			return shedding.Sample{}, fmt.Errorf("%.40q is no figure, want name=number", member)
		}
		if _, twice := figures[name]; twice {
			return shedding.Sample{}, fmt.Errorf("%s is there twice", name)
		}
		figures[name] = text
	}
	return pushed(figures)
}

// ParseBody reads a JSON object such as {"age": 12.5, "depth": 300, "done":
// 12345, "at": "2026-01-01T00:00:00Z"}, with the age in seconds, of which age
// or depth has to be there.
func ParseBody(body []byte) (shedding.Sample, error) {
	figures := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&figures); err != nil {
		return shedding.Sample{}, fmt.Errorf("no JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return shedding.Sample{}, errors.New("something follows the JSON object")
	}
	return pushed(figures)
}

func pushed(figures map[string]any) (shedding.Sample, error) {
	var s shedding.Sample
	var err error
	for name, v := range figures {
		switch name {
		case "age":
			s.Age, err = number(v, 1)
		case "depth":
			s.Depth, err = number(v, 1)
		case "done":
			s.Done, err = number(v, 1)
		case "at":
			s.At, err = moment(v, 1)
		default:
			err = errors.New("unknown, want age, depth, done or at")
		}
		if err != nil {
			return shedding.Sample{}, fmt.Errorf("%.40s: %w", name, err)
		}
	}
	if _, age := s.Age.Get(); !age {
		if _, depth := s.Depth.Get(); !depth {
			return shedding.Sample{}, errors.New("neither age nor depth is given")
		}
	}
	return s, nil
}
