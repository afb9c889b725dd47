package policytest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/config"
	"sluice/config/strict"
	"sluice/rehearse"
	"sluice/rehearse/spec"
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
	check := spec.Checker{Document: c.Document, Policy: c.policy}
	check.Signals(at+".given.signals", t.Given.Signals)
	expects := false
	for i := range t.Steps {
		path := strict.Index(at+".steps", i)
		step := &t.Steps[i]
		check.Request(path+".request", &step.Request)
		if step.Expect != nil {
			expects = true
			c.expect(path+".expect", step)
		}
	}
	if !expects && len(t.Steps) > 0 {
		c.Problem(at+".steps", "the test expects nothing and so cannot fail; give a step an expect, such as expect: {verdict: admit}")
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
		c.Problem(at, "%s", spec.Unknown(c.policy, what, name, append(known, none)))
	}
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
	return rehearse.Given{Seed: uint64(s.spec.Seed), Origin: t.Given.Origin.Rehearsed(), Signals: spec.Timelines(t.Given.Signals)}
}
