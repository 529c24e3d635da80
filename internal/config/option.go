package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/yaml11"
)

// setOption sets the value that option gives below root, replacing any value there. option is KEY=VALUE: dots
// separate the parts of the path KEY, and VALUE is YAML.
func setOption(root *yaml.Node, option string) error {
	key, text, found := strings.Cut(option, "=")
	if !found {
		return &Error{File: "--option", Problem: "must be KEY=VALUE"}
	}
	at := value{node: root}
	path := strings.Split(strings.TrimSpace(key), ".")
	name := path[len(path)-1]
	for _, parent := range path[:len(path)-1] {
		at.key = at.path(scalar(parent))
		child, err := mappingOf(at.node, parent)
		if err != nil {
			return &Error{File: "--option", Key: at.key, Problem: err.Error()}
		}
		at.node = child
	}
	set, err := yaml11.Parse([]byte(text))
	if err != nil {
		return &Error{File: "--option", Key: at.path(scalar(name)), Problem: "is not " + strings.Replace(err.Error(), "yaml", "YAML", 1)}
	}
	if set == nil {
		set = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	forgetLines(set)
	put(at.node, name, set)
	return nil
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// forgetLines marks nodes as those of an option: they have no line.
func forgetLines(n *yaml.Node) {
	n.Line, n.Column = 0, 0
	for _, child := range n.Content {
		forgetLines(child)
	}
}

// mappingOf returns the mapping at a key of another mapping. It makes the mapping if there is none.
func mappingOf(mapping *yaml.Node, name string) (*yaml.Node, error) {
	pairs, err := yaml11.Pairs(mapping)
	if err != nil {
		return nil, err
	}
	child := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, p := range pairs {
		switch {
		case p.Key.Value != name || (value{node: p.Value}).isNull():
		case p.Value.Kind == yaml.MappingNode:
			child = p.Value
		default:
			return nil, fmt.Errorf("is %s, not a mapping", kind(p.Value))
		}
	}
	put(mapping, name, child)
	return child, nil
}

// put sets the value of a mapping's key.
func put(mapping *yaml.Node, name string, set *yaml.Node) {
	for i := len(mapping.Content) - 2; i >= 0; i -= 2 {
		if key := mapping.Content[i]; key.Kind == yaml.ScalarNode && key.Value == name {
			mapping.Content[i+1] = set
			return
		}
	}
	mapping.Content = append(mapping.Content, scalar(name), set)
}
