package config

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"

	"sluice/config/strict"
	"sluice/config/value"
)

//go:embed config.schema.json
var schema []byte

// Schema is the JSON Schema (draft-07) of the config file, for editors. It
// knows less than the loader: what a single value does not show, and bounds of
// quantities.
func Schema() []byte { return append([]byte(nil), schema...) }

// Effective writes c as a config file, with every default and inherited value
// in it, and secrets masked.
func (c *Config) Effective() []byte { return strict.Encode(c) }

// userinfo is what a URL may authenticate with.
var userinfo = regexp.MustCompile(`(://)[^/?#@\s"']+@`)

// Shown is Effective for whoever may see it: credentials in URLs that are no
// secrets by themselves are masked as well.
func (c *Config) Shown() []byte {
	return userinfo.ReplaceAll(c.Effective(), []byte("${1}"+value.Mask+"@"))
}

// ParseShown reads what Shown has written: a config to be looked at, and compared
// with others that were read so, but not to be run. name is shown in problems.
func ParseShown(name string, text []byte) (*Config, error) {
	c := &Config{}
	if err := (strict.Source{Name: name, Data: text, Masks: true}).Decode(c).Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Change is one difference between two configs; see [strict.Change].
type Change = strict.Change

// Diff lists what differs between two configs in effect, by path. Changes with
// Restart set take effect only when the process is started again.
func Diff(before, after *Config) []Change { return strict.Diff(before, after) }

// WithOrigin returns c with other addresses of the origin, as a command-line
// flag may ask for; c itself stays as it is.
func (c *Config) WithOrigin(urls ...string) (*Config, error) {
	if len(urls) == 0 {
		return nil, errors.New("no address of the origin; give one such as http://127.0.0.1:3000")
	}
	changed := *c
	changed.Origin.URLs = make([]OriginURL, len(urls))
	for i, u := range urls {
		if err := changed.Origin.URLs[i].UnmarshalText([]byte(u)); err != nil {
			return nil, err
		}
	}
	return &changed, changed.reachesItself()
}

// WithListen returns c with other addresses to listen on, for clients and
// privately; "" keeps the one that c has. c itself stays as it is.
func (c *Config) WithListen(listen, admin string) (*Config, error) {
	changed := *c
	for _, a := range []struct {
		text string
		to   *Address
	}{{listen, &changed.Listen}, {admin, &changed.Admin.Listen}} {
		if a.text == "" {
			continue
		}
		if err := a.to.UnmarshalText([]byte(a.text)); err != nil {
			return nil, err
		}
	}
	if changed.Listen == changed.Admin.Listen && changed.Listen.Port() != 0 {
		return nil, fmt.Errorf("%s is meant for clients and for the private listener both; give each its own port", changed.Listen)
	}
	return &changed, changed.reachesItself()
}

// reachesItself is an error where the origin is the gateway.
func (c *Config) reachesItself() error {
	for _, u := range c.Origin.URLs {
		if sameEndpoint(c.Listen, u.Address()) || sameEndpoint(c.Admin.Listen, u.Address()) {
			return fmt.Errorf("the origin %s is where this gateway listens itself; give the address of the API behind it", u)
		}
	}
	return nil
}
