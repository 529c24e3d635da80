package rpc

import (
	"math"
	"strings"
	"testing"
)

// Numbers beyond the range of a column or a query are refused before the query.
func TestNumbersOutOfRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read func(f *fields, value any)
		good []any
		bad  []any
	}{
		"a limit":               {func(f *fields, v any) { limit.read(f, v) }, []any{int64(0), int64(5), "5"}, []any{int64(-1), "-1", "x", nil, bigInt("18446744073709551616")}},
		"an integer of 32 bits": {func(f *fields, v any) { integer32.read(f, v) }, []any{int64(math.MaxInt32), int64(math.MinInt32), true}, []any{int64(math.MaxInt32 + 1), int64(math.MinInt32 - 1)}},
	} {
		for values, want := range map[*[]any]bool{&c.good: true, &c.bad: false} {
			for _, value := range *values {
				f := &fields{mode: ofCall, name: "x"}
				if c.read(f, value); (f.err == nil) != want || f.err != nil && strings.Contains(f.err.Error(), "must be int, not int") {
					t.Errorf("%s: %#v: %v", name, value, f.err)
				}
			}
		}
	}
}
