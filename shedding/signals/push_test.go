package signals

import (
	"math"
	"strings"
	"testing"
	"time"

	"sluice/shedding"
)

func TestPushIsTheWorstSinceTheLastReading(t *testing.T) {
	var p Push
	readError(t, &p) // silence is no zero
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	p.Offer(shedding.Sample{At: late, Age: shedding.Known(5), Done: shedding.Known(10)})
	p.Offer(shedding.Sample{At: early, Age: shedding.Known(3), Depth: shedding.Known(7), Done: shedding.Known(11)})
	s := readOnce(t, &p)
	near(t, "age", s.Age, 5, 0)
	near(t, "depth", s.Depth, 7, 0)
	near(t, "done", s.Done, 11, 0)
	if !s.At.Equal(late) {
		t.Errorf("sampled at %v, want %v", s.At, late)
	}
	readError(t, &p)
	p.Offer(shedding.Sample{Age: shedding.Known(1)})
	near(t, "age", readOnce(t, &p).Age, 1, 0)

	p.Offer(shedding.Sample{Age: shedding.Known(1)})
	p.Offer(shedding.Sample{Age: shedding.Known(math.NaN())})
	if v, _ := readOnce(t, &p).Age.Get(); !math.IsNaN(v) {
		t.Errorf("age is %v: a NaN was hidden", v)
	}
}

func TestPushFormats(t *testing.T) {
	for _, c := range []struct{ header, body string }{
		{"age=12.5, depth=300,done=9, at=1767225600", `{"age": 12.5, "depth": 300, "done": 9, "at": "2026-01-01T00:00:00Z"}`},
		{" age=12.5 ,depth=300, done=9,\tat=1767225600", `{"depth": "300", "age": 12.5, "at": 1767225600, "done": 9}`},
	} {
		fromHeader, err := ParseHeader(c.header)
		if err != nil {
			t.Fatalf("%q: %v", c.header, err)
		}
		fromBody, err := ParseBody([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		for _, s := range []shedding.Sample{fromHeader, fromBody} {
			near(t, "age", s.Age, 12.5, 0)
			near(t, "depth", s.Depth, 300, 0)
			near(t, "done", s.Done, 9, 0)
			if s.At.Unix() != 1767225600 {
				t.Errorf("sampled at %v", s.At)
			}
		}
	}
	for text, want := range map[string]string{
		"":                "no figure",
		"age":             "no figure",
		"age=x":           "no number",
		"age=1, age=2":    "twice",
		"done=4":          "neither",
		"age=1, lag=2":    "unknown",
		"age=1, at=never": "no number",
	} {
		if s, err := ParseHeader(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("header %q gives %+v, %v; want an error with %q", text, s, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                      "no JSON",
		"[1]":                   "no JSON",
		`{"age": 1} {}`:         "follows",
		`{"age": null}`:         "neither",
		`{"age": {}}`:           "no number",
		`{"age": 1, "unit": 1}`: "unknown",
	} {
		if s, err := ParseBody([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("body %q gives %+v, %v; want an error with %q", text, s, err, want)
		}
	}
}

func FuzzPush(f *testing.F) {
	f.Add("age=12.5, depth=300", []byte(`{"age": 1}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		a, errA := ParseHeader(header)
		b, errB := ParseBody(body)
		for _, x := range []struct {
			s   shedding.Sample
			err error
		}{{a, errA}, {b, errB}} {
			_, age := x.s.Age.Get()
			_, depth := x.s.Depth.Get()
			if x.err == nil && !age && !depth {
				t.Fatalf("%+v says nothing and is no error", x.s)
			}
		}
	})
}
