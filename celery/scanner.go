package celery

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// scanner steps over JSON without building anything from it. It also takes NaN,
// Infinity and -Infinity, as Python does.
type scanner struct {
	src   []byte
	pos   int
	depth int
	odd   [][2]int // where NaN and infinities begin and end
}

// maxDepth bounds nesting, where Python gives up too.
const maxDepth = 1000

var errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

func (s *scanner) at(c byte) bool { return s.pos < len(s.src) && s.src[s.pos] == c }

func (s *scanner) space() {
	for s.at(' ') || s.at('\t') || s.at('\n') || s.at('\r') {
		s.pos++
	}
}

func (s *scanner) unexpected() error {
	if s.pos >= len(s.src) {
		return errors.New("JSON ends too early")
	}
	return fmt.Errorf("unexpected %q at byte %d of JSON", s.src[s.pos], s.pos)
}

// expect steps over c.
func (s *scanner) expect(c byte) error {
	if !s.at(c) {
		return s.unexpected()
	}
	s.pos++
	return nil
}

// end refuses anything but space.
func (s *scanner) end() error {
	if s.space(); s.pos < len(s.src) {
		return s.unexpected()
	}
	return nil
}

// skip steps over one value.
func (s *scanner) skip() error {
	if s.pos >= len(s.src) {
		return s.unexpected()
	}
	switch c := s.src[s.pos]; c {
	case '"':
		_, err := s.text()
		return err
	case '[':
		return s.nested(']', s.skip)
	case '{':
		return s.nested('}', s.member)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	case 'N':
		return s.oddNumber("NaN")
	case 'I':
		return s.oddNumber("Infinity")
	case '-':
		if bytes.HasPrefix(s.src[s.pos:], []byte("-Infinity")) {
			return s.oddNumber("-Infinity")
		}
	}
	return s.number()
}

func (s *scanner) member() error {
	if _, _, err := s.key(); err != nil {
		return err
	}
	return s.skip()
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.src[s.pos:], []byte(w)) {
		return s.unexpected()
	}
	s.pos += len(w)
	return nil
}

func (s *scanner) oddNumber(w string) error {
	s.odd = append(s.odd, [2]int{s.pos, s.pos + len(w)})
	return s.word(w)
}

// nested calls element for each element or member of the list or object that
// begins here and ends with end, one level deeper.
func (s *scanner) nested(end byte, element func() error) error {
	if s.depth++; s.depth > maxDepth {
		return errTooDeep
	}
	err := s.elements(end, element)
	s.depth--
	return err
}

func (s *scanner) elements(end byte, element func() error) error {
	s.pos++
	if s.space(); s.at(end) {
		s.pos++
		return nil
	}
	for {
		s.space()
		if err := element(); err != nil {
			return err
		}
		if s.space(); !s.at(',') {
			return s.expect(end)
		}
		s.pos++
	}
}

// key steps over a key, the colon after it and space. It returns the key as it
// is written, with its quotes; plain is as of text.
func (s *scanner) key() (raw []byte, plain bool, err error) {
	start := s.pos
	if !s.at('"') {
		return nil, false, s.unexpected()
	}
	if plain, err = s.text(); err != nil {
		return nil, false, err
	}
	raw = s.src[start:s.pos]
	s.space()
	err = s.expect(':')
	s.space()
	return raw, plain, err
}

// text steps over a string. It reports whether the string is printable ASCII
// without escapes.
func (s *scanner) text() (plain bool, err error) {
	plain = true
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return plain, nil
		case c < 0x20:
			return false, s.unexpected()
		case c > 0x7e:
			plain = false
		case c == '\\':
			plain = false
			s.pos++
			switch {
			case s.at('u') && isHex4(s.src[s.pos+1:]):
				s.pos += 4
			case s.pos >= len(s.src), bytes.IndexByte([]byte(`"\/bfnrt`), s.src[s.pos]) < 0:
				return false, s.unexpected()
			}
		}
	}
	return false, s.unexpected()
}

// hex4 reads the four hexadecimal digits of an escaped UTF-16 code unit.
func hex4(b []byte) rune {
	u, _ := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(u)
}

func isHex4(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	_, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return err == nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	if s.at('-') {
		s.pos++
	}
	zero, start := s.at('0'), s.pos
	if !s.digits() || zero && s.pos > start+1 {
		return s.unexpected()
	}
	if s.at('.') {
		s.pos++
		if !s.digits() {
			return s.unexpected()
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			return s.unexpected()
		}
	}
	return nil
}
