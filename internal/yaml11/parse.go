package yaml11

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxSize bounds a document with its aliases followed, in nodes plus bytes of their texts, unless the document is
// longer. Only aliases can make it four times as large as its text.
const maxSize = 100_000

// Parse reads the only document of text. The root is nil if there is none.
func Parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, withoutContent(err, text)
	case len(document.Content) == 0:
		return nil, nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("yaml: line %d: a second document; only one is expected", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, withoutContent(err, text)
	}
	budget := max(maxSize, 4*len(text))
	return follow(document.Content[0], &budget, map[*yaml.Node]bool{})
}

// withoutContent removes the name of an unknown anchor from an error and adds the line. The name is the only text
// that the parser quotes; it may be a password that begins with *.
func withoutContent(err error, text []byte) error {
	m := unknownAnchor.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	before, _, _ := bytes.Cut(text, []byte("*"+m[1]))
	return fmt.Errorf("yaml: line %d: an alias (*name) of an unknown anchor; a text that begins with * must be quoted", 1+bytes.Count(before, []byte("\n")))
}

var unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// follow replaces the aliases below n by their values. open has the nodes around n.
func follow(n *yaml.Node, budget *int, open map[*yaml.Node]bool) (*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *budget -= 1 + len(n.Value); *budget < 0 {
		return nil, fmt.Errorf("yaml: line %d: the document is too large with its aliases followed", n.Line)
	}
	if open[n] {
		return nil, fmt.Errorf("yaml: line %d: an anchor whose value contains itself", n.Line)
	}
	open[n] = true
	defer delete(open, n)
	for i, child := range n.Content {
		resolved, err := follow(child, budget, open)
		if err != nil {
			return nil, err
		}
		n.Content[i] = resolved
	}
	return n, nil
}

// Pair is one entry of a mapping.
type Pair struct{ Key, Value *yaml.Node }

// Pairs returns the entries of a mapping, merged ones (<<) first. Of entries with the same
// key, the last value wins, in the place of the first.
func Pairs(mapping *yaml.Node) ([]Pair, error) {
	var merged, own []Pair
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag != "!!merge" {
			own = append(own, Pair{key, value})
			continue
		}
		pairs, err := mergedPairs(value)
		if err != nil {
			return nil, err
		}
		merged = append(merged, pairs...)
	}
	return lastOfEach(append(merged, own...))
}

// mergedPairs returns the entries that a merge key merges: those of a mapping, or of a list of mappings. The first
// mapping of a list comes last, so that its values win.
func mergedPairs(value *yaml.Node) ([]Pair, error) {
	switch value.Kind {
	case yaml.MappingNode:
		return Pairs(value)
	case yaml.SequenceNode:
		var all []Pair
		for _, item := range slices.Backward(value.Content) {
			if item.Kind != yaml.MappingNode {
				return nil, fmt.Errorf("yaml: line %d: expected a mapping to merge", item.Line)
			}
			pairs, err := Pairs(item)
			if err != nil {
				return nil, err
			}
			all = append(all, pairs...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("yaml: line %d: expected a mapping or a list of mappings to merge", value.Line)
}

func lastOfEach(pairs []Pair) ([]Pair, error) {
	place := make(map[any]int, len(pairs))
	kept := pairs[:0]
	for _, p := range pairs {
		identity, err := keyIdentity(p.Key)
		if err != nil {
			return nil, err
		}
		if i, seen := place[identity]; seen {
			kept[i].Value = p.Value
			continue
		}
		place[identity] = len(kept)
		kept = append(kept, p)
	}
	return kept, nil
}
