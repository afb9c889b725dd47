// Package report writes what a run found: result.json and intervals.ndjson for
// programs, latency.hlog for HdrHistogram's tools, junit.xml for CI, summary.md
// and report.html for people.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/bench/result"
)

// Folder makes the folder that a run's files go to. Whatever is in it stays out
// of version control.
func Folder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644)
}

// Write writes all files about r into dir, but for those that are written
// during the run.
func Write(dir string, r *result.Result) error {
	if err := Folder(dir); err != nil {
		return err
	}
	html, err := HTML(r)
	if err != nil {
		return err
	}
	junit, err := JUnit(r)
	if err != nil {
		return err
	}
	js, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return errors.Join(
		write(dir, "result.json", append(js, '\n')),
		writeIntervals(filepath.Join(dir, "intervals.ndjson"), r.Intervals),
		write(dir, "summary.md", []byte(Summary(r))),
		write(dir, "junit.xml", junit),
		write(dir, "report.html", html),
	)
}

func write(dir, name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func writeIntervals(file string, all []result.Second) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for i := range all {
		err = errors.Join(err, enc.Encode(&all[i]))
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Read reads a result that Write has written, with its intervals where they are
// there.
func Read(path string) (*result.Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "result.json")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var r result.Result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("report: %s: %w", path, err)
	}
	if r.Format != result.Format {
		return nil, fmt.Errorf("report: %s has format %d; this program reads format %d", path, r.Format, result.Format)
	}
	f, err := os.Open(filepath.Join(filepath.Dir(path), "intervals.ndjson"))
	if errors.Is(err, os.ErrNotExist) {
		return &r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer f.Close()
	for dec := json.NewDecoder(f); dec.More(); {
		var s result.Second
		if err := dec.Decode(&s); err != nil {
			return nil, fmt.Errorf("report: %s: %w", f.Name(), err)
		}
		r.Intervals = append(r.Intervals, s)
	}
	return &r, nil
}
