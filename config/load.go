package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/config/strict"
	"sluice/config/value"
)

// Loader reads configs in given surroundings. The zero value uses those of the
// process; [Load] and [Parse] are its shorthands.
type Loader struct {
	// LookupEnv resolves ${env:NAME}; nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// ReadFile resolves ${file:path}; nil reads up to 64 KiB from disk.
	ReadFile func(path string) ([]byte, error)
}

// Load reads the config file at path. Where that fails, the error is
// [Problems], also for a file that cannot be read.
func Load(path string) (*Config, error) { return Loader{}.Load(path) }

// Parse reads a config from data. name is shown in problems, and relative
// paths in the config start at its folder. The error is [Problems].
func Parse(name string, data []byte) (*Config, error) { return Loader{}.Parse(name, data) }

// Load is like the function [Load].
func (l Loader) Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return nil, Problems{{File: path, Line: 1, Column: 1, Message: fmt.Sprintf("the file cannot be read: %v", err)}}
	}
	return l.Parse(path, data)
}

// readFile reads no more of a file than the parser would take.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a folder; name the file in it")
	}
	return io.ReadAll(io.LimitReader(f, strict.MaxSize+1))
}

// Parse is like the function [Parse].
func (l Loader) Parse(name string, data []byte) (*Config, error) {
	c := &Config{}
	doc := strict.Source{Name: name, Data: data, LookupEnv: l.LookupEnv, ReadFile: l.ReadFile}.Decode(c)
	c.resolvePaths(doc)
	c.inherit()
	check(c, doc)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	lint(c, doc)
	sum := sha256.Sum256(data)
	c.Source = Source{
		File:     name,
		Hash:     hex.EncodeToString(sum[:6]),
		Files:    doc.Files,
		Lines:    doc.Lines(func(path string) bool { return path != "" && !strings.HasPrefix(path, "tenants.api_keys[") }),
		Warnings: doc.Warnings(),
	}
	return c, nil
}

// resolvePaths makes relative paths start at the config file's folder.
func (c *Config) resolvePaths(doc *strict.Document) {
	relative := func(paths ...*Path) {
		for _, p := range paths {
			*p = Path(doc.Relative(string(*p)))
		}
	}
	if c.TLS != nil {
		relative(&c.TLS.Cert, &c.TLS.Key, &c.TLS.ClientCA)
	}
	if c.Origin.TLS != nil {
		relative(&c.Origin.TLS.CA, &c.Origin.TLS.Cert, &c.Origin.TLS.Key)
	}
	if m := c.Store.Memory; m != nil {
		relative(&m.Journal)
	}
	if r := c.Store.Redis; r != nil && r.TLS != nil {
		relative(&r.TLS.CA, &r.TLS.Cert, &r.TLS.Key)
	}
	if file, ok := c.DecisionLog.Output.File(); ok && file != "" {
		resolved := doc.Relative(file)
		if !strings.Contains(resolved, "/") {
			resolved = "." + string(filepath.Separator) + resolved
		}
		c.DecisionLog.Output = Output(resolved)
	}
}

// inherit fills what routes and overrides leave to the sections above them, and
// defaults that depend on another key.
func (c *Config) inherit() {
	for i := range c.Classes {
		if c.Classes[i].Share == 0 {
			c.Classes[i].Share = value.Percent(100 / float64(len(c.Classes)))
		}
	}
	if c.Store.Memory == nil && c.Store.Redis == nil {
		c.Store.Memory = &MemoryStore{MaxBytes: defaultMemory, Sync: SyncAlways}
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		r.MaxBody = orElse(r.MaxBody, c.Limits.MaxBody)
		r.Timeout = orElse(r.Timeout, c.Origin.Timeout)
		r.BodyTimeout = orElse(r.BodyTimeout, c.Limits.BodyTimeout)
		r.MaxResponse = orElse(r.MaxResponse, c.Limits.MaxResponse)
	}
	for _, s := range c.Tenants.From {
		switch k := s.APIKey; {
		case k == nil || k.Header != "":
		case k.Scheme == SchemeBearer:
			k.Header = "Authorization"
		default:
			k.Header = "X-Api-Key"
		}
	}
	for name, o := range c.Tenants.Overrides {
		if l := c.Tenants.Limit; l != nil {
			o.Rate = orElse(o.Rate, l.Rate)
			o.Burst = orElse(o.Burst, l.Burst)
			o.Mode = orElse(o.Mode, l.Mode)
		}
		o.Mode = orElse(o.Mode, Enforce)
		if c.ClassHeader != nil {
			o.MaxClass = orElse(o.MaxClass, c.ClassHeader.Ceiling)
		}
		c.Tenants.Overrides[name] = o
	}
}

func orElse[T comparable](v, other T) T {
	var unset T
	if v == unset {
		return other
	}
	return v
}

// Line returns the line at which path, such as "routes[2]", stands in the
// file, or the nearest section around it; 1 for what the file leaves out.
func (c *Config) Line(path string) int {
	for path != "" {
		if line, ok := c.Source.Lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}
