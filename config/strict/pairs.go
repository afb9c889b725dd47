package strict

import (
	"gopkg.in/yaml.v3"
)

// pair is one key of a mapping and its value.
type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs lists the keys of a mapping, with those that << merges in after its
// own. A key set twice is reported and its first value taken.
func (d *decoder) pairs(n *yaml.Node, path string) []pair {
	var own []pair
	var merges []*yaml.Node
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.full; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		name, ok := d.keyName(key, path)
		if !ok {
			continue
		}
		if first := seen[name]; first != nil {
			d.problemAt(key, Key(path, name), "the key stands here twice, first in line %d; keep one of them", first.Line)
			continue
		}
		seen[name] = key
		own = append(own, pair{name, key, value})
	}
	for _, m := range merges {
		for _, p := range d.merged(m, path, true) {
			if seen[p.name] == nil {
				seen[p.name] = p.key
				own = append(own, p)
			}
		}
	}
	return own
}

// merged lists the keys that << takes from n: a section, or a list of them
// where lists are allowed.
func (d *decoder) merged(n *yaml.Node, path string, lists bool) []pair {
	target, leave := d.enter(n, path)
	if target == nil {
		return nil
	}
	defer leave()
	switch {
	case target.Kind == yaml.MappingNode:
		pairs := d.pairs(target, path)
		d.spend(n, path, len(pairs), true) // merging copies, and copying copies multiplies
		return pairs
	case target.Kind == yaml.SequenceNode && lists:
		var all []pair
		for _, item := range target.Content {
			all = append(all, d.merged(item, path, false)...)
		}
		return all
	}
	d.problemAt(n, path, "<< can merge sections only; write <<: *name, with &name on a section")
	return nil
}

// keyName returns the text of a key.
func (d *decoder) keyName(key *yaml.Node, path string) (string, bool) {
	n := key
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		d.problemAt(key, path, "a key must be a plain text, not a list or a section")
		return "", false
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.problemAt(key, path, "the tag %s is not supported; write the key without it", Quote(n.Tag))
		return "", false
	}
	switch n.ShortTag() {
	case "!!str", "!!int":
		return n.Value, true
	case "!!null":
		d.problemAt(key, path, "a key is empty; write one, in quotes if it is meant to look like this")
		return "", false
	}
	d.problemAt(key, path, "the key %s reads as something other than a text; write %q", n.Value, n.Value)
	return "", false
}
