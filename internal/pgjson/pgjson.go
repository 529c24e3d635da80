// Package pgjson finds the parts of valid JSON that PostgreSQL's type jsonb or a worker's json module can't read,
// before they are stored.
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
	// MaxDepth is the deepest nesting of lists and mappings. Python's json module has a limit of about 1,000, and a
	// message adds some levels around the arguments.
	MaxDepth = 500
	// MaxDigits is the most digits of a number before and after its point, without an exponent. Python reads no
	// longer integers.
	MaxDigits = 4300
)

// Fault is a fault of a value in a text.
type Fault struct {
	Problem string
	Path    []string // names and indexes (in brackets) from the outermost value to the faulty one
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

// Check returns the first fault of a valid JSON text; nil if there is none. The faults are a NUL, half a surrogate
// pair, bytes that are not UTF-8, and excesses of MaxDepth and MaxDigits.
func Check(text []byte) *Fault { return check(text, false) }

// CheckUnique is Check with one more fault: a repeated key of a mapping. (PostgreSQL and Python use the last one.)
func CheckUnique(text []byte) *Fault { return check(text, true) }

func check(text []byte, unique bool) *Fault {
	if !utf8.Valid(text) {
		return &Fault{Problem: "the text is not UTF-8"}
	}
	c := checker{text: text, unique: unique}
	return c.value(0)
}

// CheckPairs returns the first half of a surrogate pair in a valid JSON text. encoding/json would replace it by
// U+FFFD.
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

// skip skips white space and separators, and returns the byte there.
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
			_ = json.Unmarshal(raw, &key) // the text is valid
		}
		if fault != nil {
			return fault.below(strconv.Quote(key))
		}
		if _, again := seen[key]; again && c.unique {
			return (&Fault{Problem: "the key appears twice"}).below(key)
		}
		seen[key] = struct{}{}
		if fault := c.value(depth + 1); fault != nil {
			return fault.below(key)
		}
	}
	c.pos++
	return nil
}

// below prepends a step to the path.
func (f *Fault) below(step string) *Fault {
	if step == "" {
		step = `""`
	}
	f.Path = append([]string{step}, f.Path...)
	return f
}

// string skips a string and returns it with its quotes.
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
