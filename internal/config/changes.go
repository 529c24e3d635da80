package config

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/yaml11"
)

// hashSeed makes the hashes of values, which may be passwords, useless to other processes.
var hashSeed = maphash.MakeSeed()

// version is what a file says, by dotted key: the hashes of its values. A list is one value.
type version struct {
	modified time.Time // of the file
	values   map[string]uint64
}

// Changed returns the dotted keys that have other values in the file of b than in that of a,
// in order. Keys that only other programs read, and what replaced a part of the file, don't
// count.
func Changed(a, b *Config) []string {
	changed := map[string]bool{}
	for _, pair := range [][2]*Config{{a, b}, {b, a}} {
		for key, value := range pair[0].version.values {
			if other, ok := pair[1].version.values[key]; !ok || other != value {
				changed[key] = true
			}
		}
	}
	return keysOf(changed)
}

// SameFile reports whether nothing was written to the file between two readings.
func SameFile(a, b *Config) bool {
	return a.version.modified.Equal(b.version.modified) && maps.Equal(a.version.values, b.version.values)
}

// Modified returns when the file was written; zero if there is none.
func (c *Config) Modified() time.Time { return c.version.modified }

// Sections returns the top-level keys that the file may have.
func Sections() []string { return keysOf(Default().sections()) }

// note notes the values of the sections that are read.
func (v version) note(root value, sections []string) {
	pairs, _ := yaml11.Pairs(root.node) // was read before
	for _, p := range pairs {
		if !slices.Contains(sections, p.Key.Value) {
			continue
		}
		others := othersKeys(p.Key.Value)
		v.noteValue(value{root.reader, p.Value, root.path(p.Key)}, func(key string) bool { return slices.Contains(others, key) })
	}
}

// noteValue notes a value, or those of a mapping but of the keys to skip.
func (v version) noteValue(of value, skip func(key string) bool) {
	if of.isNull() {
		return // as if it were left out
	}
	pairs, err := yaml11.Pairs(of.node)
	if of.node.Kind != yaml.MappingNode || err != nil {
		text, err := yaml11.JSON(of.node)
		if err != nil {
			text, _ = yaml.Marshal(of.node) // a date, which has no form in JSON
		}
		// Keys that can't be shown share a name.
		v.values[of.key] = v.values[of.key]*31 + maphash.Bytes(hashSeed, text)
		return
	}
	for _, p := range pairs {
		if skip == nil || !skip(p.Key.Value) {
			v.noteValue(value{of.reader, p.Value, of.path(p.Key)}, nil)
		}
	}
}

// forget removes the values of sections that something else replaces.
func (v version) forget(sections ...string) {
	maps.DeleteFunc(v.values, func(key string, _ uint64) bool {
		section, _, _ := strings.Cut(key, ".")
		return slices.Contains(sections, section)
	})
}
