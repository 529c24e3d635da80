// Package yaml11 reads YAML as the Python components do, with PyYAML, which resolves plain scalars by YAML 1.1
// (https://yaml.org/type/). There yes and on are true, 012 is ten, 1:30 is ninety and 1_000 is a thousand. But 1e3,
// without a dot and a sign, is a text. The parser is go.yaml.in/yaml/v3; this package only resolves its nodes.
//
// Parse returns a tree without aliases. It refuses a tree that contains itself, or is too large with its aliases
// followed. Errors name the line and quote no text, which may be a password.
package yaml11
