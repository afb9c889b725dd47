package policytest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/admission"
	"sluice/config"
	"sluice/config/strict"
	"sluice/rehearse"
	"sluice/shedding"
)

// Suffix is what files of policy tests end in, where a folder is searched.
const Suffix = ".test.yaml"

// ErrNoFiles is that no file of policy tests was found.
var ErrNoFiles = errors.New("no file of policy tests")

// Find lists the files that the arguments name: files as they are, and of
// folders those below them that end in [Suffix]. Finding none in an argument is
// an error that wraps [ErrNoFiles].
func Find(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w at %s: there is nothing of that name", ErrNoFiles, arg)
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, arg)
			continue
		}
		found := 0
		err = filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, Suffix) {
				files = append(files, path)
				found++
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if found == 0 {
			return nil, fmt.Errorf("%w in %s: their names end in %s", ErrNoFiles, arg, Suffix)
		}
	}
	if len(files) == 0 {
		return nil, ErrNoFiles
	}
	return files, nil
}

// Suite is a file that was read, with the configuration that it tests.
type Suite struct {
	File   string
	Policy *config.Config
	spec   File
	lines  map[string]int // of the file's paths
}

// Load reads a file of policy tests and the configuration that it names. Its
// error is [strict.Problems]: everything that is wrong with the file, or with the
// configuration.
func Load(file string) (*Suite, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return nil, strict.Problems{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file cannot be read: %v", err)}}
	}
	return Parse(file, data)
}

// Parse is like [Load], of a file's text.
func Parse(file string, data []byte) (*Suite, error) {
	s := &Suite{File: file}
	doc := strict.Source{Name: file, Data: data}.Decode(&s.spec)
	if s.spec.Config != "" && !doc.Failed("config") {
		cfg, err := s.loader().Load(doc.Relative(s.spec.Config))
		if err != nil {
			// Whatever else is wrong with the tests may come from that.
			return nil, errors.Join(doc.Err(), err)
		}
		s.Policy = cfg
	}
	if s.Policy != nil {
		c := checker{doc, s.Policy}
		for i := range s.spec.Tests {
			c.test(strict.Index("tests", i), &s.spec.Tests[i])
		}
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	s.lines = doc.Lines(func(string) bool { return true })
	return s, nil
}

// loader reads the configuration in the surroundings that the file gives.
func (s *Suite) loader() config.Loader {
	l := config.Loader{LookupEnv: func(name string) (string, bool) {
		if v, ok := s.spec.Env[name]; ok {
			return v, true
		}
		return os.LookupEnv(name)
	}}
	folder := filepath.Dir(filepath.Join(filepath.Dir(s.File), s.spec.Config))
	l.ReadFile = func(path string) ([]byte, error) {
		for name, text := range s.spec.Files {
			if name == path || !filepath.IsAbs(name) && filepath.Join(folder, name) == path {
				return []byte(text), nil
			}
		}
		return readSmall(path)
	}
	return l
}

// maxIncluded is how much is read of a file that a configuration names.
const maxIncluded = 64 << 10

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIncluded+1))
	if err == nil && len(data) > maxIncluded {
		err = fmt.Errorf("it is larger than %d bytes", maxIncluded)
	}
	return data, err
}

// checker finds what single values do not show to be wrong.
type checker struct {
	*strict.Document
	policy *config.Config
}

func (c checker) test(at string, t *Test) {
	for name, readings := range t.Given.Signals {
		c.timeline(strict.Key(at+".given.signals", name), name, readings)
	}
	expects := false
	for i := range t.Steps {
		path := strict.Index(at+".steps", i)
		step := &t.Steps[i]
		c.request(path+".request", &step.Request)
		if step.Expect != nil {
			expects = true
			c.expect(path+".expect", step)
		}
	}
	if !expects && len(t.Steps) > 0 {
		c.Problem(at+".steps", "the test expects nothing and so cannot fail; give a step an expect, such as expect: {verdict: admit}")
	}
}

func (c checker) timeline(at, name string, readings []Reading) {
	if known := rehearse.SignalNames(c.policy); !slices.Contains(known, name) {
		c.unknown(c.ProblemAtKey, at, "queue, or queue/signal,", name, known)
	}
	if len(readings) == 0 {
		c.Problem(at, "there is no reading; write at least one, such as {age: 42s}")
	}
	for i, r := range readings {
		path := strict.Index(at, i)
		switch {
		case i > 0 && r.At <= readings[i-1].At:
			c.Problem(path, "it is not later (%s) than the reading before it (%s); write them in the order of time", r.At, readings[i-1].At)
		case r.Silent && (r.Age != nil || r.Depth != nil || r.Done != nil || r.Frozen):
			c.Problem(path, "a silent signal tells nothing; remove silent, or everything else but at")
		case !r.Silent && r.Age == nil && r.Depth == nil:
			c.Problem(path, "it says neither age nor depth; write one of them, or silent: true")
		}
	}
}

func (c checker) request(at string, r *Request) {
	if !strings.HasPrefix(r.Path, "/") && r.Path != "" {
		c.Problem(at+".path", "%s is not a path; write it from its first slash on, such as /v1/orders", c.Written(at+".path"))
	}
	if _, err := netip.ParseAddr(r.Client); err != nil {
		c.Problem(at+".client", "%s is not an address; write one such as 192.0.2.1", c.Written(at+".client"))
	}
	if r.Class == "" {
		return
	}
	if c.policy.ClassHeader == nil {
		c.Problem(at+".class", "requests cannot ask for a class: %s has no class_header; expect the class instead, or add a class_header", c.policy.Source.File)
	}
}

func (c checker) expect(at string, step *Step) {
	e := step.Expect
	c.name(at+".route", "route", e.Route, "unmatched", ids(c.policy.Routes, func(r config.Route) config.ID { return r.ID }))
	c.name(at+".class", "class", e.Class, "none", ids(c.policy.Classes, func(k config.Class) config.ID { return k.Name }))
	c.name(at+".rule", "priority rule", e.Rule, "none", ids(c.policy.Priority, func(r config.PriorityRule) config.ID { return r.ID }))
	if r := e.RetryAfter; r != nil && r.Min > r.Max {
		c.Problem(at+".retry_after", "it is to be at least %s and at most %s, which nothing is; write min: %s, max: %s", r.Min, r.Max, r.Max, r.Min)
	}
	if e.Admitted != nil && e.Verdict != "" {
		c.Problem(at+".admitted", "admitted and verdict exclude each other: one is about all %d requests, the other about each; keep one of them", step.Repeat)
	}
	if *e == (Expect{}) {
		c.Problem(at, "it expects nothing; write what, such as {verdict: admit}, or remove it")
	}
}

// name checks the name of something that the policy has.
func (c checker) name(at, what, name, none string, known []string) {
	if name != "" && name != none && !slices.Contains(known, name) {
		c.unknown(c.Problem, at, what, name, append(known, none))
	}
}

func (c checker) unknown(problem func(path, format string, args ...any), at, what, name string, known []string) {
	hint := "there are: " + strings.Join(known, ", ")
	if near := strict.Nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	}
	problem(at, "%s has no %s %s; %s", c.policy.Source.File, what, strict.Quote(name), hint)
}

func ids[T any](list []T, id func(T) config.ID) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(id(v))
	}
	return out
}

// given turns what a test is given into what a stage takes.
func (s *Suite) given(t *Test) rehearse.Given {
	g := rehearse.Given{Seed: uint64(s.spec.Seed), Origin: t.Given.Origin.origin(), Signals: map[string]rehearse.Timeline{}}
	for name, readings := range t.Given.Signals {
		for _, r := range readings {
			p := rehearse.Point{At: time.Duration(r.At), Silent: r.Silent, Frozen: r.Frozen}
			if r.Age != nil {
				p.Age = shedding.Known(time.Duration(*r.Age).Seconds())
			}
			if r.Depth != nil {
				p.Depth = shedding.Known(float64(*r.Depth))
			}
			if r.Done != nil {
				p.Done = shedding.Known(float64(*r.Done))
			}
			g.Signals[name] = append(g.Signals[name], p)
		}
	}
	return g
}

func (o *Origin) origin() rehearse.Origin {
	out := rehearse.Origin{Takes: time.Duration(o.Takes), Outcome: o.Outcome.outcome(), Status: o.Answers}
	if out.Outcome != admission.Answered {
		out.Status = 0
	}
	return out
}

// number puts the number of a repetition into the texts of a request.
func (r *Request) number(n int) *rehearse.Request {
	put := func(s string) string { return strings.ReplaceAll(s, "{n}", fmt.Sprint(n)) }
	q := &rehearse.Request{
		Method: string(r.Method), Path: put(r.Path), Tenant: put(r.Tenant), Class: r.Class, Body: put(r.Body), ClientCert: put(r.ClientCert),
	}
	q.Client, _ = netip.ParseAddr(r.Client) // checked
	for _, name := range sortedKeys(r.Header) {
		q.Header = append(q.Header, rehearse.Field{Name: string(name), Value: put(r.Header[name])})
	}
	return q
}
