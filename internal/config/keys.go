package config

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
)

//go:embed known_keys.txt
var knownKeys string

// othersKeys returns the keys of a section that only other programs read.
func othersKeys(section string) []string {
	_, keys, _ := strings.Cut(knownKeys, "\n"+section+":\n")
	keys, _, _ = strings.Cut(keys, "\n\n")
	return strings.Fields(keys)
}

// unknown reports a key that neither this program nor another one reads, and suggests the nearest known one. A key
// that resembles one of ours is an error, because the default would silently replace its value. Any other key is a
// warning.
func (e entry) unknown(known, others []string) {
	if slices.Contains(others, e.name) {
		return
	}
	near := Nearest(e.name, append(slices.Clone(known), others...))
	if slices.Contains(known, near) && editDistance(strings.ToLower(e.name), near) <= 2 {
		e.errors = append(e.errors, value{e.reader, e.keyNode, e.key}.error("is not a known key"+meant(near)))
		return
	}
	e.warn("is not a known key; it is ignored" + meant(near))
}

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// didYouMean returns " (did you mean …?)" for the known name nearest to name, or "".
func didYouMean(name string, known []string) string {
	return meant(Nearest(name, known))
}

func meant(name string) string {
	if name == "" {
		return ""
	}
	return " (did you mean " + name + "?)"
}

// Nearest returns the known name that name was probably meant to be, or "": at most a
// third of its letters are added, left out, replaced or swapped.
func Nearest(name string, known []string) string {
	best, distance := "", max(1, len(name)/3)+1
	for _, candidate := range known {
		if d := editDistance(strings.ToLower(name), candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if distance >= len(name) {
		return "" // the name and the nearest one have nothing in common
	}
	return best
}

// editDistance returns the number of bytes to add, leave out, replace or swap with their
// neighbour to turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			replace := row[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			next[j] = min(row[j]+1, next[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
