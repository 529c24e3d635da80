package rpc

import (
	"fmt"
	"slices"
	"strings"
)

// signature is what a Python callable takes: a method of the peer's backend, or
// the constructor of a class of its model.
type signature struct {
	name     string
	required []string
	optional []string
}

// check refuses keyword arguments as Python does, in its words.
func (s signature) check(d dict) error {
	for _, e := range d {
		name, ok := e.key.(string)
		if !ok {
			return typeError("keywords must be strings")
		}
		if !slices.Contains(s.required, name) && !slices.Contains(s.optional, name) {
			return typeError("%s() got an unexpected keyword argument '%s'", s.name, name)
		}
	}
	var missing []string
	for _, name := range s.required {
		if _, found := d.get(name); !found {
			missing = append(missing, "'"+name+"'")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	plural := "s"
	if len(missing) == 1 {
		plural = ""
	}
	return typeError("%s() missing %d required positional argument%s: %s", s.name, len(missing), plural, inWords(missing))
}

// inWords joins words as Python does: a and b; a, b, and c.
func inWords(words []string) string {
	switch last := len(words) - 1; last {
	case 0:
		return words[0]
	case 1:
		return words[0] + " and " + words[1]
	default:
		return fmt.Sprintf("%s, and %s", strings.Join(words[:last], ", "), words[last])
	}
}
