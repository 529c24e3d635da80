// Package yaml11 reads YAML as the Python components do, so that a file or an
// argument shared with them means the same to us. They use PyYAML, which
// resolves plain scalars by YAML 1.1 (https://yaml.org/type/): yes and on are
// true, 012 is ten, 1:30 is ninety, 1_000 is a thousand, but 1e3, which lacks a
// dot and a sign, is a text. The parser itself is go.yaml.in/yaml/v3; only the
// meaning of its nodes is decided here.
//
// Parse returns a tree without aliases that is safe to walk: one that refers to
// itself, or that grows beyond measure when its aliases are followed, is an
// error. Errors name the line and quote nothing of the text, which may be a
// password.
package yaml11
