package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Refused returns the errors of settings in the file that some daemons need and can't support.
func (c *Config) Refused() error {
	return errors.Join(append(slices.Clone(c.Celery.refused), c.Journal.Refused)...)
}

type Error struct {
	File    string
	Line    int // 0 if not known
	Column  int
	Key     string // dotted path; "" for the file as a whole
	Problem string // the file does not exist, or can't be read
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

// Missing returns the error of a missing key, at the line of its section if the file has that section.
func (c *Config) Missing(key, expected string) error {
	return c.wrong(key, "is missing: expected "+expected)
}

// Wrong returns the error of an unusable value of a key, at the key's line.
func (c *Config) Wrong(key string, err error) error {
	return c.wrong(key, "can't be used: "+err.Error())
}

// WrongConsumerSetting returns the error of an unusable setting of Kafka consumers, at its line or with the name of
// its environment variable.
func (c *Config) WrongConsumerSetting(name, problem string) error {
	if name == instanceID && os.Getenv(instanceIDVar) != "" {
		return &Error{File: "environment", Key: instanceIDVar, Problem: "can't be used: " + problem}
	}
	key := "journal.consumer_settings." + name
	if _, given := c.lines[key]; !given {
		if _, given = c.lines["journal."+name]; given {
			key = "journal." + name
		}
	}
	return c.wrong(key, "can't be used: "+problem)
}

// wrong returns an error of a key, at its line or that of its section.
func (c *Config) wrong(key, problem string) error {
	e := &Error{File: c.File, Key: key, Problem: problem}
	if line, given := c.lines[key]; given && line == 0 {
		e.File = "--option"
		return e
	}
	for section := key; section != "" && e.Line == 0; section = section[:max(0, strings.LastIndexByte(section, '.'))] {
		e.Line = c.lines[section]
	}
	return e
}
