package celery

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// maxDepth bounds nesting at Python's own limit.
const maxDepth = 1000

var (
	errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

	// pythonNumber matches the numbers that Python writes and JSON lacks. It also matches strings, which may contain
	// their names.
	pythonNumber = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)
)

// beyondNumbers replaces NaN and the infinities in events: a number that is too large for a float, and true, as
// those are in Python.
const beyondNumbers = "1e999"

// validJSON returns an error unless src is a JSON document. Like Python, it accepts NaN, Infinity and -Infinity.
// plain is src with other in place of those.
func validJSON(src []byte, other string) (plain []byte, err error) {
	if json.Valid(src) {
		return src, nil
	}
	replacement := []byte(other)
	plain = pythonNumber.ReplaceAllFunc(src, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return replacement
	})
	if err = json.Unmarshal(plain, new(json.RawMessage)); err != nil && strings.Contains(err.Error(), "exceeded max depth") {
		err = errTooDeep
	}
	return plain, err
}

// scanner steps over a document that validJSON accepts, and allocates nothing for it.
type scanner struct {
	src   []byte
	pos   int
	depth int
	err   error // what else is wrong with the document
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.src) && s.src[s.pos] == c }

// separators steps over blanks and separators between values.
func (s *scanner) separators() {
	for s.at(' ') || s.at('\t') || s.at('\n') || s.at('\r') || s.at(',') || s.at(':') {
		s.pos++
	}
}

// elements calls element at each element of the list that begins here. For an object, it calls element at each key,
// and at each value that element did not step over.
func (s *scanner) elements(element func()) {
	if s.depth++; s.depth > maxDepth {
		s.err = errTooDeep
	}
	s.pos++
	for s.separators(); !s.at(']') && !s.at('}'); s.separators() {
		element()
	}
	s.pos++
	s.depth--
}

// skip steps over one value.
func (s *scanner) skip() {
	switch s.src[s.pos] {
	case '"':
		s.text()
	case '[', '{':
		s.elements(s.skip)
	default:
		for s.pos < len(s.src) && strings.IndexByte(" \t\n\r,]}", s.src[s.pos]) < 0 {
			s.pos++
		}
	}
}

// value steps over one value and returns it.
func (s *scanner) value() json.RawMessage {
	start := s.pos
	s.skip()
	return s.src[start:s.pos:s.pos]
}

// text steps over a string. It reports whether the string is printable ASCII
// without escapes.
func (s *scanner) text() (plain bool) {
	plain = true
	for s.pos++; s.src[s.pos] != '"'; s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '\\':
			plain = false
			s.pos++
		case c > 0x7e:
			plain = false
		}
	}
	s.pos++
	return plain
}
