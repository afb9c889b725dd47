package report

import (
	"encoding/xml"
	"fmt"
	"time"

	"sluice/bench/result"
)

type suite struct {
	XMLName   xml.Name `xml:"testsuite"`
	Name      string   `xml:"name,attr"`
	Tests     int      `xml:"tests,attr"`
	Failures  int      `xml:"failures,attr"`
	Errors    int      `xml:"errors,attr"`
	Skipped   int      `xml:"skipped,attr"`
	Time      string   `xml:"time,attr"`
	Timestamp string   `xml:"timestamp,attr"`
	Cases     []tcase  `xml:"testcase"`
}

type tcase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
	Skipped *message `xml:"skipped"`
}

type message struct {
	Message string `xml:"message,attr"`
}

// JUnit is the run's checks and thresholds as test cases. A run that is not
// valid is an error of its own, so that no tool takes it for a pass.
func JUnit(r *result.Result) ([]byte, error) {
	s := suite{Name: "bench " + r.Name, Time: fmt.Sprintf("%.3f", r.Seconds), Timestamp: r.Started.UTC().Format(time.RFC3339)}
	valid := tcase{Class: r.Name, Name: "the run is valid"}
	if r.Verdict == result.Invalid {
		valid.Error = &message{first(r.Why)}
		s.Errors++
	}
	s.Cases = append(s.Cases, valid)
	for _, c := range r.Checks {
		t := tcase{Class: r.Name, Name: c.Name}
		if !c.OK {
			t.Failure = &message{c.Detail}
			s.Failures++
		}
		s.Cases = append(s.Cases, t)
	}
	for _, th := range r.Thresholds {
		t := tcase{Class: r.Name, Name: th.What + " " + th.Bound}
		switch th.Result {
		case "missed":
			t.Failure = &message{"measured " + th.Value}
			s.Failures++
		case "unknown":
			t.Error = &message{th.Why}
			s.Errors++
		case "not_judged":
			t.Skipped = &message{th.Why}
			s.Skipped++
		}
		s.Cases = append(s.Cases, t)
	}
	s.Tests = len(s.Cases)
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return append([]byte(xml.Header), append(b, '\n')...), nil
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
