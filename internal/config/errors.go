package config

import (
	"fmt"
	"strings"
)

// Error is something wrong with a value of the file.
type Error struct {
	File    string
	Line    int // 0 where there is none to name
	Column  int
	Key     string // dotted path; "" for the file as a whole
	Problem string // what is wrong and what was expected

	cause error
}

func (e *Error) Error() string { return place(e.File, e.Line, e.Column) + at(e.Key) + e.Problem }

// Unwrap is the cause, if there is one: fs.ErrNotExist where there is no file.
func (e *Error) Unwrap() error { return e.cause }

// Warning is something in the file that is probably not meant so.
type Warning struct {
	File    string
	Line    int
	Column  int
	Key     string
	Problem string
}

func (w Warning) String() string { return place(w.File, w.Line, w.Column) + at(w.Key) + w.Problem }

func place(file string, line, column int) string {
	if file == "" {
		file = "configuration"
	}
	if line > 0 {
		file += fmt.Sprintf(":%d", line)
	}
	if column > 0 {
		file += fmt.Sprintf(":%d", column)
	}
	return file + ": "
}

func at(key string) string {
	if key == "" {
		return ""
	}
	return key + " "
}

// parent is the path of the section that key is in; "" for a top key.
func parent(key string) string {
	section, _, _ := cutLast(key)
	return section
}

func cutLast(key string) (section, name string, found bool) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:], true
	}
	return "", key, false
}
