package msgpack

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	peer "github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// read reads a whole document as a tree.
func read(t rapid.TB, r *Reader) any {
	token, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	switch token.Kind {
	case Bool:
		return token.Bool()
	case Int:
		return token.Int()
	case Uint:
		return token.Uint()
	case Float:
		return token.Float()
	case Text:
		return string(token.Data)
	case Bytes:
		return token.Data
	case Ext:
		seconds, nanoseconds, ok := Timestamp(token.Data)
		if token.Type != TimestampType || !ok {
			t.Fatalf("extension %d of %d bytes", token.Type, len(token.Data))
		}
		return time.Unix(seconds, int64(nanoseconds))
	case List:
		list := make([]any, token.Len())
		for i := range list {
			list[i] = read(t, r)
		}
		return list
	case Map:
		m := make(map[string]any, token.Len())
		for range token.Len() {
			key := read(t, r).(string)
			m[key] = read(t, r)
		}
		return m
	}
	return nil
}

// write appends a tree.
func write(dst []byte, value any) []byte {
	switch v := value.(type) {
	case bool:
		return AppendBool(dst, v)
	case int64:
		return AppendInt(dst, v)
	case uint64:
		return AppendUint(dst, v)
	case float64:
		return AppendFloat(dst, v)
	case string:
		return AppendText(dst, v)
	case []byte:
		return AppendBytes(dst, v)
	case time.Time:
		return AppendTime(dst, v)
	case []any:
		dst = AppendList(dst, len(v))
		for _, element := range v {
			dst = write(dst, element)
		}
		return dst
	case map[string]any:
		dst = AppendMap(dst, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			dst = write(AppendText(dst, key), v[key])
		}
		return dst
	}
	return AppendNil(dst)
}

// values draws trees, with lengths and numbers on both sides of each form.
func values(depth int) *rapid.Generator[any] {
	length := rapid.SampledFrom([]int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536})
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Custom(func(t *rapid.T) any {
			return int64(1)<<rapid.IntRange(0, 62).Draw(t, "bit") + rapid.Int64Range(-1, 0).Draw(t, "less")
		}),
		rapid.Custom(func(t *rapid.T) any {
			return int64(-1)<<rapid.IntRange(0, 63).Draw(t, "bit") + rapid.Int64Range(0, 1).Draw(t, "more")
		}),
		rapid.Uint64Min(math.MaxInt64 + 1).AsAny(),
		rapid.Float64().AsAny(),
		rapid.String().AsAny(),
		rapid.Custom(func(t *rapid.T) any { return strings.Repeat("a", length.Draw(t, "n")) }),
		rapid.Custom(func(t *rapid.T) any { return bytes.Repeat([]byte{7}, length.Draw(t, "n")) }),
		rapid.Custom(func(t *rapid.T) any {
			return time.Unix(rapid.SampledFrom([]int64{-1, 0, 1<<32 - 1, 1 << 32, 1<<34 - 1, 1 << 34}).Draw(t, "s"), rapid.Int64Range(0, 1).Draw(t, "ns"))
		}),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOf(values(depth-1)).AsAny(),
			rapid.MapOf(rapid.String(), values(depth-1)).AsAny(),
			rapid.Custom(func(t *rapid.T) any { return make([]any, length.Draw(t, "n")) }))
	}
	return rapid.OneOf(kinds...)
}

// Written documents are read unchanged, by this package and by another library, and the reverse. Skip skips the same
// bytes.
func TestDocuments(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		value := values(2).Draw(t, "value")
		ours := write(nil, value)
		r := Reader{Rest: ours}
		if diff := cmp.Diff(value, read(t, &r), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); len(r.Rest) > 0 || diff != "" {
			t.Fatalf("%x is read with %x left, and (-written +read):\n%s", ours, r.Rest, diff)
		}
		skipped := Reader{Rest: append(bytes.Clone(ours), 0xc0)}
		if err := skipped.Skip(); err != nil || len(skipped.Rest) != 1 {
			t.Fatalf("%x: %v, with %x left", ours, err, skipped.Rest)
		}
		var theirs any
		if err := peer.Unmarshal(ours, &theirs); err != nil {
			t.Fatalf("%x: %v", ours, err)
		}
		document, err := peer.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		r.Rest = document
		if again := write(nil, read(t, &r)); !bytes.Equal(again, ours) {
			t.Fatalf("%x is read as %x", document, again)
		}
	})
}

// Each value has the form of Python's msgpack, which is the shortest.
func TestForms(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		"7f": int64(127), "cc80": int64(128), "e0": int64(-32), "d0df": int64(-33), "cd0100": int64(256), "ce00010000": int64(65536),
		"cf0000000100000000": int64(1 << 32), "cb7ff8000000000000": math.Float64frombits(0xfff8000000000001),
		"bf" + strings.Repeat("61", 31): strings.Repeat("a", 31), "d920" + strings.Repeat("61", 32): strings.Repeat("a", 32),
		"c40161": []byte("a"), "9f" + strings.Repeat("c0", 15): make([]any, 15), "dc0010" + strings.Repeat("c0", 16): make([]any, 16),
		"d6ffffffffff": time.Unix(1<<32-1, 0), "d7ff0000000100000000": time.Unix(1<<32, 0), "d7ff0000000400000000": time.Unix(0, 1),
		"c70cff00000000ffffffffffffffff": time.Unix(-1, 0),
	} {
		if got := fmt.Sprintf("%x", write(nil, value)); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
}

// An append to the data of a value doesn't overwrite what follows.
func TestDataHaveNoRoom(t *testing.T) {
	t.Parallel()
	r := Reader{Rest: []byte("\xa1ab")}
	token, err := r.Next()
	if _ = append(token.Data, 'c'); err != nil || string(r.Rest) != "b" {
		t.Errorf("%v, and %q is left", err, r.Rest)
	}
}

// Invalid and truncated documents are refused, and so are lengths that exceed the document.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"", "\xa1", "\xc4", "\xc4\x01", "\xc5\x00", "\xc7\x01", "\xc7\x01\xff", "\xca\x00", "\xcd\x00", "\xd1\x00", "\xd4", "\xd4\xff", "\x91", "\x81\x00",
		"\xdb\xff\xff\xff\xff", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff",
	} {
		if _, err := (&Reader{Rest: []byte(document)}).Next(); !errors.Is(err, ErrShort) {
			t.Errorf("%q: %v", document, err)
		}
		if err := (&Reader{Rest: []byte(document)}).Skip(); !errors.Is(err, ErrShort) {
			t.Errorf("step over %q: %v", document, err)
		}
	}
	if err := (&Reader{Rest: []byte("\x92\x91\x00")}).Skip(); !errors.Is(err, ErrShort) {
		t.Errorf("a list without its last element: %v", err)
	}
	if _, err := (&Reader{Rest: []byte{0xc1}}).Next(); !errors.Is(err, CodeError(0xc1)) {
		t.Errorf("0xc1: %v", err)
	}
	if err := (&Reader{Rest: bytes.Repeat([]byte{0x91}, 1<<20)}).Skip(); !errors.Is(err, ErrShort) {
		t.Errorf("a million lists in one another: %v", err)
	}
}

// For any document, reading ends and allocates nothing.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x82\xa4date\xd7\xff\x00\x00\x00\x04\x00\x00\x00\x01\xa8snapshot\xc0"))
	f.Add([]byte("\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, document []byte) {
		var err error
		if n := testing.AllocsPerRun(1, func() { err = (&Reader{Rest: document}).Skip() }); n > 1 { // the error allocates
			t.Errorf("%v allocations", n)
		}
		if _, code := errors.AsType[CodeError](err); err != nil && !code && !errors.Is(err, ErrShort) {
			t.Errorf("%v", err)
		}
	})
}
