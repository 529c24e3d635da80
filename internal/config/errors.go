package config

import (
	"cmp"
	"fmt"
	"strings"
)

type Error struct {
	File    string
	Line    int // 0 if not known
	Column  int
	Key     string // dotted path; "" for the file as a whole
	Problem string // what is wrong and what was expected
	Unread  bool   // there is no such file, or it can't be read
}

func (e *Error) Error() string {
	text := cmp.Or(e.File, "configuration")
	for _, n := range []int{e.Line, e.Column} {
		if n > 0 {
			text += fmt.Sprintf(":%d", n)
		}
	}
	return strings.TrimSpace(text+": "+e.Key) + " " + e.Problem
}

// Warning is a probable mistake in the file.
type Warning Error

func (w Warning) String() string { return (*Error)(&w).Error() }

// Missing returns the error that a needed key is absent, at the line of its section if
// the file has that.
func (c *Config) Missing(key, expected string) error {
	e := &Error{File: c.File, Key: key, Problem: "is missing: expected " + expected}
	for section := key; section != "" && e.Line == 0; section = section[:max(0, strings.LastIndexByte(section, '.'))] {
		e.Line = c.lines[section]
	}
	return e
}
