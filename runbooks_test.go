package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/admin"
)

// Whoever is woken must not be told to type what does not exist: every metric,
// command, flag and path of the admin listener that a runbook names is there.
func TestRunbooks(t *testing.T) {
	pages, err := filepath.Glob("docs/runbooks/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d runbooks (%v)", len(pages), err)
	}
	origin, _ := countingOrigin(t)
	p, _ := start(t, configFor(origin.URL, ""))
	span := regexp.MustCompile("`([^`\n]+)`")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(page) != "README.md" {
			for _, part := range []string{"**Means.**", "**Callers feel", "**Look.**", "**Do.**", "**Don't", "**It is over"} {
				if strings.Count(string(text), part) < 1 {
					t.Errorf("%s: does not say: %s", page, part)
				}
			}
		}
		for _, name := range regexp.MustCompile(`\bsluice_[a-z0-9_]+`).FindAllString(string(text), -1) {
			if !metricExists(name) {
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
		// Patterns of grep: each alternative has to be the beginning of one.
		for _, m := range regexp.MustCompile(`\bsluice_\(([a-z0-9_|]+)\)`).FindAllStringSubmatch(string(text), -1) {
			for _, beginning := range strings.Split(m[1], "|") {
				if !slices.ContainsFunc(admin.Catalogue(), func(i admin.MetricInfo) bool {
					return strings.HasPrefix(i.Name, "sluice_"+strings.TrimSuffix(beginning, "_count"))
				}) {
					t.Errorf("%s: no metric begins with sluice_%s", page, beginning)
				}
			}
		}
		var commands []string
		for _, b := range blocksOf(t, page) {
			commands = append(commands, b.lines...)
		}
		for _, m := range span.FindAllStringSubmatch(string(text), -1) {
			commands = append(commands, m[1])
		}
		checked := 0
		for _, c := range commands {
			switch {
			case strings.HasPrefix(c, "sluice "):
				checked++
				if err := commandExists(c); err != nil {
					t.Errorf("%s: %s: %v", page, c, err)
				}
			case strings.HasPrefix(c, "curl "):
				checked++
				path := regexp.MustCompile(`127\.0\.0\.1:9090(/[a-z/]*)`).FindStringSubmatch(c)
				if path == nil {
					t.Errorf("%s: asks no admin listener: %s", page, c)
					continue
				}
				res, err := http.Get("http://" + p.admin + path[1])
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode == http.StatusNotFound {
					t.Errorf("%s: the admin listener has no %s", page, path[1])
				}
			}
		}
		if checked == 0 && filepath.Base(page) != "README.md" {
			t.Errorf("%s: says nothing to look with", page)
		}
	}
}

// metricExists reports whether a series is one of a metric in the catalogue, or
// the beginning of some where it ends in an underscore, as in a grep.
func metricExists(name string) bool {
	return slices.ContainsFunc(admin.Catalogue(), func(m admin.MetricInfo) bool {
		if strings.HasSuffix(name, "_") {
			return strings.HasPrefix(m.Name, name)
		}
		return m.Name == name || m.Kind == admin.Histogram && strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count") == m.Name
	})
}

// commandExists looks a command line up in the program's commands.
func commandExists(line string) error {
	c, args, err := rootCommand().Find(strings.Fields(line)[1:])
	if err != nil {
		return err
	}
	if !c.Runnable() && c.HasParent() {
		return fmt.Errorf("%s is no command by itself", c.CommandPath())
	}
	if c == c.Root() {
		return fmt.Errorf("there is no such command")
	}
	return c.ParseFlags(args)
}
