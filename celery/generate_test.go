package celery_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator writes random JSON texts that Python and Go may write differently. It varies numbers, escapes, the order and
// repetition of keys, depth, and lengths near those at which Celery shortens.
type generator struct{ *rand.Rand }

func (g generator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g generator) value(depth int) string {
	switch n := g.IntN(10); {
	case n < 3:
		return g.text()
	case n < 5:
		return g.number()
	case n < 6:
		return g.pick("null", "true", "false")
	case depth <= 0:
		return g.pick("[]", "{}", "[ ]", `""`)
	case n < 8:
		return g.list(depth - 1)
	default:
		return g.dict(depth - 1)
	}
}

func (g generator) list(depth int) string {
	items := make([]string, g.IntN(5))
	for i := range items {
		items[i] = g.value(depth)
	}
	return "[" + strings.Join(items, g.pick(",", ", ", " ,\n\t")) + "]"
}

func (g generator) dict(depth int) string {
	items := make([]string, g.IntN(5))
	if g.IntN(50) == 0 {
		items = make([]string, 40)
	}
	for i := range items {
		key := g.text()
		if g.IntN(3) == 0 {
			key = g.pick(`"a"`, `"\u0061"`, `"b"`, `""`) // repeated keys, and two spellings of one key
		}
		items[i] = key + g.pick(":", ": ", " : ") + g.value(depth)
	}
	return "{" + strings.Join(items, g.pick(",", ", ")) + "}"
}

func (g generator) number() string {
	switch g.IntN(8) {
	case 0:
		return g.pick("0", "-0", "-0.0", "0.0", "1e400", "-1e400", "1e-400", "5e-324", "1E5", "1e+16", "1e16",
			"1e15", "123456789012345678", "1180591620717411303424", "0.0001", "0.00001", "1.0", "100", "9007199254740993",
			"9007199254740993.0", "1.7976931348623157e308", "2.5e-5", "NaN", "Infinity", "-Infinity")
	case 1:
		return strconv.FormatInt(g.Int64()-g.Int64(), 10)
	case 2:
		digits := strconv.Itoa(1 + g.IntN(9))
		for range g.IntN(200) {
			digits += strconv.Itoa(g.IntN(10))
		}
		return digits
	case 3:
		return fmt.Sprintf("%g", (g.Float64()-0.5)*pow10(g.IntN(40)-20))
	case 4:
		return fmt.Sprintf("%.*f", 1+g.IntN(18), (g.Float64()-0.5)*pow10(g.IntN(20)))
	case 5:
		return fmt.Sprintf("%de%d", g.IntN(1000), g.IntN(600)-300)
	default:
		return strconv.Itoa(g.IntN(2000) - 1000)
	}
}

func pow10(n int) float64 {
	f, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	return f
}

func (g generator) text() string {
	length := g.IntN(12)
	switch g.IntN(30) {
	case 0:
		length = 900 + g.IntN(300)
	case 1:
		length = 300 + g.IntN(100)
	}
	var b strings.Builder
	b.WriteByte('"')
	for range length {
		b.WriteString(g.pick("a", "b", "Z", " ", "/", `\/`, "'", `\"`, `\\`, `\n`, `\t`, `\r`, `\b`, `\f`, `\u0000`, `\u001f`,
			"\x7f", `\u007f`, "é", `\u00e9`, "ß", "\u00a0", "\u2028", "€", "\ufeff", "\uffff", "😀", `\ud83d\ude00`, `\uD83D\uDE00`,
			"\U0010ffff", "https://example.org/", "<&>", "%", "{", "]", "\u0301", "x", "y", "0"))
	}
	b.WriteByte('"')
	return b.String()
}
