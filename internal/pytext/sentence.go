package pytext

import (
	"fmt"
	"slices"
	"strings"
)

// Sentence is an error with a text of the Python scheduler.
type Sentence string

func (s Sentence) Error() string { return string(s) }

func Sentencef(format string, args ...any) error { return Sentence(fmt.Sprintf(format, args...)) }

// OneLine joins the lines of an error's text, without repeated ones: pgx writes a line for each address and each way
// to connect to it.
func OneLine(err error) error { return oneLine{err} }

type oneLine struct{ error }

func (e oneLine) Unwrap() error { return e.error }

func (e oneLine) Error() string {
	var parts []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}
