package journal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"swh-scheduler/internal/model"
)

// pack builds msgpack by hand, independently of our decoder and encoder.
type pack struct{ bytes.Buffer }

type rawMsgpack []byte

func (p *pack) value(v any) *pack {
	enc := msgpack.NewEncoder(&p.Buffer)
	switch v := v.(type) {
	case rawMsgpack:
		p.Write(v)
	case time.Time:
		p.Write(timestamp12(v.Unix(), uint32(v.Nanosecond())))
	default:
		if err := enc.Encode(v); err != nil {
			panic(err)
		}
	}
	return p
}

// packMap encodes keys and values in turn.
func packMap(keysAndValues ...any) rawMsgpack {
	var p pack
	if err := msgpack.NewEncoder(&p.Buffer).EncodeMapLen(len(keysAndValues) / 2); err != nil {
		panic(err)
	}
	for _, v := range keysAndValues {
		p.value(v)
	}
	return p.Bytes()
}

func timestamp12(sec int64, nsec uint32) rawMsgpack {
	b := []byte{0xc7, 12, 0xff, byte(nsec >> 24), byte(nsec >> 16), byte(nsec >> 8), byte(nsec)}
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(sec>>shift))
	}
	return b
}

// record returns a complete valid record with some keys changed; a nil key is left out.
func record(changes map[string]any) []byte {
	values := map[string]any{
		"origin": origin.URL, "visit": 3, "date": at(0), "status": "full",
		"snapshot": snapshotA, "type": "git", "metadata": nil,
	}
	for key, v := range changes {
		values[key] = v
	}
	var all []any
	for _, key := range []string{"origin", "visit", "date", "status", "snapshot", "type", "metadata", "more"} {
		v, ok := values[key]
		if _, left := v.(leftOut); left || !ok {
			continue
		}
		all = append(all, key, v)
	}
	return packMap(all...)
}

type leftOut struct{}

func TestDecodeVisits(t *testing.T) {
	t.Parallel()
	good := Visit{OriginKey: origin, Date: at(0), Status: model.VisitSuccessful, Snapshot: snapshotA}
	with := func(change func(*Visit)) Visit {
		v := good
		change(&v)
		return v
	}
	dated := func(t time.Time) Visit { return with(func(v *Visit) { v.Date = t }) }
	longInt := rawMsgpack{0xc7, 9, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	longNegative := rawMsgpack{0xc7, 9, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	old := "2015-06-07T08:09:10.123456+02:00"
	oldDate := time.Date(2015, 6, 7, 6, 9, 10, 123456000, time.UTC)
	for _, tc := range []struct {
		name  string
		value []byte
		want  Visit
	}{
		{"a full visit", record(nil), good},
		{"a partial visit counts as successful", record(map[string]any{"status": "partial"}), good},
		{"full without a snapshot is failed", record(map[string]any{"snapshot": nil}),
			with(func(v *Visit) { v.Status, v.Snapshot = model.VisitFailed, nil })},
		{"an empty snapshot is a snapshot", record(map[string]any{"snapshot": []byte{}}),
			with(func(v *Visit) { v.Snapshot = []byte{} })},
		{"a failed visit needs no snapshot", record(map[string]any{"status": "failed", "snapshot": leftOut{}}),
			with(func(v *Visit) { v.Status, v.Snapshot = model.VisitFailed, nil })},
		{"the snapshot of a visit that failed does not count", record(map[string]any{"status": "not_found"}),
			with(func(v *Visit) { v.Status, v.Snapshot = model.VisitNotFound, nil })},
		{"a Timestamp of 32 bits", record(map[string]any{"date": rawMsgpack{0xd6, 0xff, 0xff, 0xff, 0xff, 0xff}}),
			dated(time.Unix(1<<32-1, 0).UTC())},
		{"a Timestamp of 64 bits, cut to microseconds", record(map[string]any{"date": rawMsgpack{0xd7, 0xff, 0xee, 0x6b, 0x27, 0xfc, 0, 0, 0, 5}}),
			dated(time.Unix(5, 999_999_000).UTC())},
		{"a Timestamp of 96 bits before 1970", record(map[string]any{"date": timestamp12(-1, 1999)}),
			dated(time.Unix(-1, 1000).UTC())},
		{"the first day of Python's calendar", record(map[string]any{"date": timestamp12(firstSecond, 0)}),
			dated(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))},
		{"the last day of Python's calendar", record(map[string]any{"date": timestamp12(lastSecond, 0)}),
			dated(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))},
		{"an old date, tagged with bytes", record(map[string]any{"date": packMap([]byte("swhtype"), "datetime", []byte("d"), old)}), dated(oldDate)},
		{"an old date, all bytes", record(map[string]any{"date": packMap([]byte("d"), []byte(old), []byte("swhtype"), []byte("datetime"))}), dated(oldDate)},
		{"an old date, tagged with strings", record(map[string]any{"date": packMap("swhtype", "datetime", "d", old)}), dated(oldDate)},
		{"an old date without a fraction", record(map[string]any{"date": packMap([]byte("swhtype"), "datetime", []byte("d"), "2015-06-07T06:09:10+00:00")}),
			dated(oldDate.Truncate(time.Second))},
		{"a zone with seconds", record(map[string]any{"date": packMap([]byte("swhtype"), "datetime", []byte("d"), "1900-01-01T00:09:21+00:09:21")}),
			dated(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC))},
		{"a long integer is stepped over", record(map[string]any{"visit": longInt, "metadata": longNegative}), good},
		{"metadata of any kind is stepped over", record(map[string]any{"metadata": packMap(
			1, 2.5, nil, true, []byte("k"), []any{1, -1, -100, "a", []byte("b"), uint64(1 << 63), int64(-1 << 62), float32(1)},
			packMap("map", "as key"), packMap("x", packMap("y", []any{})), "date", at(5), "long", strings.Repeat("x", 70000))}), good},
		{"keys that are no strings are stepped over", packMap(
			1, "one", nil, 2, []byte("status"), "ongoing", packMap(), 3, timestamp12(1, 1), 4,
			"origin", origin.URL, "type", "git", "status", "full", "snapshot", snapshotA, "date", at(0)), good},
		{"deep nesting is stepped over", record(map[string]any{"more": rawMsgpack(append(bytes.Repeat([]byte{0x91}, 500_000), 0xc0))}), good},
		{"the last of two equal keys counts", packMap("status", "failed", "origin", origin.URL, "type", "git",
			"status", "full", "snapshot", snapshotA, "date", at(0)), good},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, final, err := newDecoder().decode(tc.value)
			if err != nil || !final {
				t.Fatalf("final %t, error %v", final, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The Python scheduler skips these records without reading their other fields.
func TestDecodeStepsOver(t *testing.T) {
	t.Parallel()
	for name, value := range map[string][]byte{
		"created":                       record(map[string]any{"status": "created", "date": nil, "snapshot": nil}),
		"ongoing":                       record(map[string]any{"status": "ongoing", "origin": "a\x00b"}),
		"without a visit type":          record(map[string]any{"type": leftOut{}, "status": "odd", "date": 3}),
		"an empty map":                  packMap(),
		"nil":                           {0xc0},
		"whose type is a key of bytes":  packMap([]byte("type"), "git", "status", "full"),
		"on its way, with broken dates": record(map[string]any{"status": "created", "date": timestamp12(1<<60, 0)}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, final, err := newDecoder().decode(value); err != nil || final {
				t.Errorf("final %t, error %v", final, err)
			}
		})
	}
}

func TestDecodeSetsAside(t *testing.T) {
	t.Parallel()
	good := record(nil)
	for _, tc := range []struct {
		name, kind string
		value      []byte
	}{
		{"nothing at all", KindMalformed, []byte{}},
		{"a cut record", KindMalformed, good[:len(good)-3]},
		{"two records", KindMalformed, append(bytes.Clone(good), good...)},
		{"a list", KindMalformed, []byte{0x90}},
		{"a number", KindMalformed, []byte{0x01}},
		{"a code that does not exist", KindMalformed, []byte{0x81, 0xa1, 'a', 0xc1}},
		{"a string longer than the value", KindMalformed, []byte{0x81, 0xa1, 'a', 0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}},
		{"a list longer than the value", KindMalformed, []byte{0x81, 0xa1, 'a', 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0}},
		{"a map longer than the value", KindMalformed, []byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0, 0xc0}},
		{"10 MB", KindTooLarge, record(map[string]any{"metadata": make([]byte, 10<<20)})},
		{"no origin", KindMissingKey, record(map[string]any{"origin": leftOut{}})},
		{"no date", KindMissingKey, record(map[string]any{"date": leftOut{}})},
		{"no status", KindMissingKey, record(map[string]any{"status": leftOut{}})},
		{"full without the key snapshot", KindMissingKey, record(map[string]any{"snapshot": leftOut{}})},
		{"origin of bytes", KindWrongType, record(map[string]any{"origin": []byte(origin.URL)})},
		{"type nil", KindWrongType, record(map[string]any{"type": nil})},
		{"status a number", KindWrongType, record(map[string]any{"status": 1})},
		{"snapshot a string", KindWrongType, record(map[string]any{"snapshot": "aaaaaaaaaaaaaaaaaaaa"})},
		{"date nil", KindWrongType, record(map[string]any{"date": nil})},
		{"date a number", KindWrongType, record(map[string]any{"date": 1700000000})},
		{"date a string", KindWrongType, record(map[string]any{"date": "2020-01-01T00:00:00+00:00"})},
		{"date of another extension type", KindWrongType, record(map[string]any{"date": rawMsgpack{0xd6, 5, 0, 0, 0, 0}})},
		{"date some other map", KindWrongType, record(map[string]any{"date": packMap("a", 1)})},
		{"date tagged as something else", KindWrongType, record(map[string]any{"date": packMap("swhtype", "timedelta", "d", "x")})},
		{"year 0", KindBadDate, record(map[string]any{"date": timestamp12(firstSecond-1, 0)})},
		{"year 10000", KindBadDate, record(map[string]any{"date": timestamp12(lastSecond+1, 0)})},
		{"a Timestamp of odd width", KindBadDate, record(map[string]any{"date": rawMsgpack{0xd5, 0xff, 0, 0}})},
		{"too many nanoseconds", KindBadDate, record(map[string]any{"date": timestamp12(0, 1_000_000_000)})},
		{"an old date without zone", KindBadDate, record(map[string]any{"date": packMap("swhtype", "datetime", "d", "2020-01-01T00:00:00")})},
		{"an old date that is none", KindBadDate, record(map[string]any{"date": packMap("swhtype", "datetime", "d", "yesterday")})},
		{"an old date that is no string", KindBadDate, record(map[string]any{"date": packMap("swhtype", "datetime", "d", 5)})},
		{"an old date before year 1", KindBadDate, record(map[string]any{"date": packMap("swhtype", "datetime", "d", "0001-01-01T00:00:00+02:00")})},
		{"a NUL in the URL", KindBadText, record(map[string]any{"origin": "https://example.org/\x00"})},
		{"a NUL in the type", KindBadText, record(map[string]any{"type": "g\x00it"})},
		{"a URL that is not UTF-8", KindBadText, record(map[string]any{"origin": "https://example.org/\xff"})},
		{"a status nobody knows", KindUnknownStatus, record(map[string]any{"status": "great"})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, final, err := newDecoder().decode(tc.value)
			var rejected *RejectError
			if !errors.As(err, &rejected) || final {
				t.Fatalf("final %t, error %v; want it set aside", final, err)
			}
			if rejected.Kind != tc.kind {
				t.Errorf("kind %q (%s), want %q", rejected.Kind, rejected.Detail, tc.kind)
			}
		})
	}
}

// A decoder carries no state from one value to the next, except visit types.
func TestDecoderIsReused(t *testing.T) {
	t.Parallel()
	d := newDecoder()
	value := record(nil)
	first, _, err := d.decode(value)
	if err != nil {
		t.Fatal(err)
	}
	clear(value) // it belongs to the Kafka client
	if _, _, err := d.decode(record(nil)[:9]); err == nil {
		t.Fatal("a cut record was decoded")
	}
	if v, final, err := d.decode(record(map[string]any{"origin": "https://other.example", "snapshot": snapshotB})); err != nil || !final || v.URL != "https://other.example" {
		t.Fatalf("%v %t %v", v, final, err)
	}
	if first.URL != origin.URL || !bytes.Equal(first.Snapshot, snapshotA) {
		t.Errorf("a later record wrote over an earlier one: %v", first)
	}
}

// The decoder stores few visit types, for any number in the topic.
func TestVisitTypesAreBounded(t *testing.T) {
	t.Parallel()
	d := newDecoder()
	for i := range 2 * maxVisitTypes {
		visitType := fmt.Sprint("type-", i)
		if v, _, err := d.decode(record(map[string]any{"type": visitType})); err != nil || v.VisitType != visitType {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if n := len(d.visitTypes); n > maxVisitTypes {
		t.Errorf("%d visit types are remembered", n)
	}
}

// For any value, decode ends with a visit that PostgreSQL accepts or with a reason.
func FuzzDecode(f *testing.F) {
	f.Add(record(nil))
	f.Add(record(map[string]any{"date": packMap([]byte("swhtype"), "datetime", []byte("d"), "2015-06-07T08:09:10+02:00")}))
	f.Add(record(map[string]any{"metadata": packMap(1, []any{nil, true, 1.5}, packMap(), []byte("x"))}))
	f.Add([]byte{0xc0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		v, final, err := newDecoder().decode(value)
		if err != nil {
			var rejected *RejectError
			if !errors.As(err, &rejected) || rejected.Kind == "" || final {
				t.Fatalf("final %t, error %v", final, err)
			}
			return
		}
		if !final {
			return
		}
		for _, s := range []string{v.URL, v.VisitType} {
			if strings.ToValidUTF8(s, "") != s || strings.ContainsRune(s, 0) {
				t.Errorf("PostgreSQL would refuse %q", s)
			}
		}
		if y := v.Date.Year(); y < 1 || y > 9999 || v.Date.Nanosecond()%1000 != 0 {
			t.Errorf("date %s", v.Date)
		}
		if (v.Snapshot != nil) != (v.Status == model.VisitSuccessful) {
			t.Errorf("status %s, snapshot %v", v.Status, v.Snapshot)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, metadata := range []int{0, 1000} {
		b.Run(fmt.Sprintf("metadata=%d", metadata), func(b *testing.B) {
			value := record(map[string]any{"metadata": packMap("x", make([]byte, metadata))})
			d := newDecoder()
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := d.decode(value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
