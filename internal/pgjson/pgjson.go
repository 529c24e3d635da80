// Package pgjson finds out what neither PostgreSQL's type jsonb nor a worker's json module could read in a text
// that is valid JSON, before anything is stored.
package pgjson

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a text.
const (
	// MaxDepth is how deep lists and mappings may be nested. Python's json module has a limit of about 1,000, less
	// what a message puts around the arguments.
	MaxDepth = 500
	// MaxDigits is how many digits a number may have before and after its point, written out: Python reads no
	// longer integers.
	MaxDigits = 4300
)

// Fault is what is wrong with a value of a text.
type Fault struct {
	Problem string
	Path    []string // names and places (in brackets) from the outermost value to the one that is wrong
}

func (f *Fault) Error() string {
	if len(f.Path) == 0 {
		return f.Problem
	}
	return fmt.Sprintf("%s (%s)", f.Problem, f.Where())
}

// Where returns the path as a text, shortened.
func (f *Fault) Where() string {
	const most, longest = 8, 60
	var where strings.Builder
	for i, step := range f.Path {
		if i == most {
			where.WriteString("…")
			break
		}
		if i > 0 && step[0] != '[' {
			where.WriteByte('.')
		}
		if short := []rune(step); len(short) > longest {
			step = string(short[:longest]) + "…"
		}
		where.WriteString(step)
	}
	return where.String()
}

// Check returns the first fault of a JSON text, which must be valid; nil if there is none. The faults are a NUL, half a
// surrogate pair, bytes that are not UTF-8, and what is beyond MaxDepth and MaxDigits.
func Check(text []byte) *Fault { return check(text, false) }

// CheckUnique is Check; a key that a mapping has twice is a fault, too. (PostgreSQL and Python take the last one.)
func CheckUnique(text []byte) *Fault { return check(text, true) }

func check(text []byte, unique bool) *Fault {
	if !utf8.Valid(text) {
		return &Fault{Problem: "the text is not UTF-8"}
	}
	c := checker{text: text, unique: unique}
	return c.value(0)
}

// CheckPairs returns the first half of a surrogate pair in a JSON text, which must be valid. encoding/json would put
// U+FFFD in its place.
func CheckPairs(text []byte) *Fault {
	if !halves.Match(text) {
		return nil
	}
	c := checker{text: text, onlyPairs: true}
	return c.value(0)
}

var halves = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

type checker struct {
	text      []byte
	pos       int
	unique    bool
	onlyPairs bool
}

// skip steps over white space and separators, and returns the byte there.
func (c *checker) skip() byte {
	for {
		switch b := c.text[c.pos]; b {
		case ' ', '\t', '\n', '\r', ',', ':':
			c.pos++
		default:
			return b
		}
	}
}

func (c *checker) value(depth int) *Fault {
	switch b := c.skip(); b {
	case '{', '[':
		if depth == MaxDepth && !c.onlyPairs {
			return &Fault{Problem: fmt.Sprintf("lists and mappings are nested more than %d deep", MaxDepth)}
		}
		c.pos++
		if b == '[' {
			return c.list(depth)
		}
		return c.object(depth)
	case '"':
		_, fault := c.string()
		return fault
	case 't', 'n':
		c.pos += len("true")
	case 'f':
		c.pos += len("false")
	default:
		return c.number()
	}
	return nil
}

func (c *checker) list(depth int) *Fault {
	for i := 0; c.skip() != ']'; i++ {
		if fault := c.value(depth + 1); fault != nil {
			return fault.below("[" + strconv.Itoa(i) + "]")
		}
	}
	c.pos++
	return nil
}

func (c *checker) object(depth int) *Fault {
	seen := map[string]struct{}{}
	for c.skip() != '}' {
		raw, fault := c.string()
		key := string(raw[1 : len(raw)-1])
		if strings.ContainsRune(key, '\\') {
			_ = json.Unmarshal(raw, &key) // valid
		}
		if fault != nil {
			return fault.below(strconv.Quote(key))
		}
		if _, again := seen[key]; again && c.unique {
			return (&Fault{Problem: "the key is there twice"}).below(key)
		}
		seen[key] = struct{}{}
		if fault := c.value(depth + 1); fault != nil {
			return fault.below(key)
		}
	}
	c.pos++
	return nil
}

// below puts a step before the path.
func (f *Fault) below(step string) *Fault {
	if step == "" {
		step = `""`
	}
	f.Path = append([]string{step}, f.Path...)
	return f
}

// string steps over a string and returns it with its quotes.
func (c *checker) string() (raw []byte, fault *Fault) {
	first := c.pos
	for c.pos++; c.text[c.pos] != '"'; c.pos++ {
		if c.text[c.pos] != '\\' {
			continue
		}
		c.pos++
		if c.text[c.pos] != 'u' {
			continue
		}
		unit := c.unit(c.pos + 1)
		c.pos += 4
		switch {
		case unit == 0 && !c.onlyPairs:
			fault = &Fault{Problem: "PostgreSQL has no texts with a NUL"}
		case unit >= 0xd800 && unit < 0xdc00 && c.text[c.pos+1] == '\\' && c.text[c.pos+2] == 'u':
			if low := c.unit(c.pos + 3); low < 0xdc00 || low > 0xdfff {
				fault = &Fault{Problem: halfPair}
			} else {
				c.pos += 6
			}
		case unit >= 0xd800 && unit <= 0xdfff:
			fault = &Fault{Problem: halfPair}
		}
	}
	c.pos++
	return c.text[first:c.pos], fault
}

const halfPair = "the text holds half a surrogate pair, which has no UTF-8 form"

// unit returns the number of four hexadecimal digits.
func (c *checker) unit(at int) uint64 {
	unit, _ := strconv.ParseUint(string(c.text[at:at+4]), 16, 16) // valid
	return unit
}

func (c *checker) number() *Fault {
	first := c.pos
	for c.pos < len(c.text) && strings.IndexByte("+-.eE0123456789", c.text[c.pos]) >= 0 {
		c.pos++
	}
	if c.onlyPairs {
		return nil
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(c.text[first:c.pos])), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift > MaxDigits || shift < -MaxDigits {
			shift = 2 * MaxDigits
		}
	}
	if len(whole)+shift > MaxDigits || len(fraction)-shift > MaxDigits {
		return &Fault{Problem: fmt.Sprintf("the number has more than %d digits", MaxDigits)}
	}
	return nil
}
