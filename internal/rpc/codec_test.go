package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// writeValue writes what readMsgpack or readJSON has read, so that the two
// directions can be held against one another.
func writeValue(e encoder, value any) {
	switch v := value.(type) {
	case nil:
		e.null()
	case bool:
		e.boolean(v)
	case int:
		e.integer(int64(v))
	case int64:
		e.integer(v)
	case *big.Int:
		e.bigInteger(v)
	case float64:
		e.float(v)
	case string:
		e.text(v)
	case []byte:
		e.bytes(v)
	case time.Time:
		e.time(v)
	case time.Duration:
		writeTimedelta(e, v)
	case uuid.UUID:
		writeUUID(e, v)
	case []any:
		e.openList(len(v))
		for _, element := range v {
			writeValue(e, element)
		}
		e.closeList()
	case dict:
		e.openDict()
		for _, entry := range v {
			e.key(entry.key.(string))
			writeValue(e, entry.value)
		}
		e.closeDict()
	case map[string]any:
		e.openDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e.key(key)
			writeValue(e, v[key])
		}
		e.closeDict()
	case tagged:
		e.openTag(v.name)
		writeValue(e, v.value)
		e.closeTag()
	case model.ListedOrigin:
		listedOrigins.write(&fields{out: e}, &v)
	case model.Lister:
		listers.write(&fields{out: e}, &v)
	case model.VisitStats:
		visitStats.write(&fields{out: e}, &v)
	case model.TaskType:
		taskTypes.write(&fields{out: e}, &v)
	case model.TaskRun:
		taskRuns.write(&fields{out: e}, &v)
	case model.Metrics:
		originMetrics.write(&fields{out: e}, &v)
	default:
		panic(fmt.Sprintf("no way to write a %T", value))
	}
}

func encode(t *testing.T, mime string, value any) []byte {
	t.Helper()
	e := newEncoder(mime, nil)
	writeValue(e, value)
	body, err := e.finish()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func decode(mime string, body []byte) (any, error) {
	if mime == mimeMsgpack {
		return readMsgpack(body, defaultLimits)
	}
	return readJSON(body, defaultLimits)
}

var compareValues = cmp.Options{
	cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }),
	cmp.AllowUnexported(entry{}),
}

func bigInt(text string) *big.Int {
	i, _ := new(big.Int).SetString(text, 10)
	return i
}

func pointer[T any](v T) *T { return &v }

var (
	someTime = time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC)
	someID   = uuid.MustParse("6fa459ea-ee8a-3ca4-894e-db77e160355e")
)

// every value of the wire, and how the Python scheduler's own serialiser is asked for it.
var everyValue = []struct {
	python string
	value  any
}{
	{"None", nil}, {"True", true}, {"False", false},
	{"0", int64(0)}, {"127", int64(127)}, {"128", int64(128)}, {"255", int64(255)}, {"256", int64(256)}, {"65535", int64(65535)}, {"65536", int64(65536)},
	{"4294967295", int64(4294967295)}, {"4294967296", int64(4294967296)}, {"9223372036854775807", int64(math.MaxInt64)},
	{"-1", int64(-1)}, {"-32", int64(-32)}, {"-33", int64(-33)}, {"-128", int64(-128)}, {"-129", int64(-129)}, {"-32768", int64(-32768)}, {"-32769", int64(-32769)},
	{"-2147483648", int64(-2147483648)}, {"-2147483649", int64(-2147483649)}, {"-9223372036854775808", int64(math.MinInt64)},
	{"9223372036854775808", bigInt("9223372036854775808")}, {"2**64", bigInt("18446744073709551616")}, {"-2**64", bigInt("-18446744073709551616")}, {"10**40", bigInt("1" + strings.Repeat("0", 40))},
	{"0.5", 0.5}, {"1.0", 1.0}, {"1e300", 1e300}, {"-0.0", math.Copysign(0, -1)}, {"1e-7", 1e-7},
	{"''", ""}, {"'é\\n\"\\\\ \U0001F600\\x00'", "é\n\"\\ \U0001F600\x00"}, {"'a' * 31", strings.Repeat("a", 31)}, {"'a' * 32", strings.Repeat("a", 32)}, {"'a' * 300", strings.Repeat("a", 300)}, {"'a' * 70000", strings.Repeat("a", 70000)},
	{"b''", []byte{}}, {"b'\\x00\\xff'", []byte{0, 255}}, {"bytes(range(20))", []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
	{"[]", []any{}}, {"[1, [None]]", []any{int64(1), []any{nil}}}, {"[0] * 16", slicesRepeat(16)}, {"[0] * 70000", slicesRepeat(70000)},
	{"{}", dict{}}, {"{'a': {'b': 1}}", dict{{"a", dict{{"b", int64(1)}}}}},
	{"{'swhtype': 'unknown', 'd': 1}", dict{{"swhtype", "unknown"}, {"d", int64(1)}}},
	{"datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc)", someTime},
	{"datetime(2024, 2, 29, 12, 34, 56, tzinfo=timezone.utc)", someTime.Truncate(time.Second)},
	{"datetime(1, 1, 1, tzinfo=timezone.utc)", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	{"datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=timezone.utc)", time.Date(1969, 12, 31, 23, 59, 59, 500000000, time.UTC)},
	{"timedelta(days=-1, hours=23)", -time.Hour}, {"timedelta(days=400, microseconds=3)", 400*24*time.Hour + 3*time.Microsecond}, {"timedelta(0)", time.Duration(0)},
	{"UUID('6fa459ea-ee8a-3ca4-894e-db77e160355e')", someID},
	{"model.ListedOrigin(lister_id=UUID('6fa459ea-ee8a-3ca4-894e-db77e160355e'), url='u', visit_type='git', extra_loader_arguments={'a': [1, 2.5, None]}, is_fork=False, first_seen=datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc), last_seen=datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc))",
		model.ListedOrigin{ListerID: someID, URL: "u", VisitType: "git", ExtraLoaderArguments: json.RawMessage(`{"a":[1,2.5,null]}`), Enabled: true, IsFork: pointer(false), FirstSeen: someTime, LastSeen: someTime}},
	{"model.Lister(name='n', instance_name='i', id=UUID('6fa459ea-ee8a-3ca4-894e-db77e160355e'), created=datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc), updated=datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc), first_visits_queue_prefix='p')",
		model.Lister{Name: "n", InstanceName: "i", ID: someID, CurrentState: json.RawMessage("{}"), Created: someTime, Updated: someTime, FirstVisitsQueuePrefix: pointer("p")}},
	{"model.OriginVisitStats(url='u', visit_type='git', last_visit_status='failed', last_snapshot=bytes(20), next_visit_queue_position=7)",
		model.VisitStats{URL: "u", VisitType: "git", LastVisitStatus: model.VisitFailed, LastSnapshot: make([]byte, 20), NextVisitQueuePosition: pointer(int64(7)), NextPositionOffset: 4, SuccessiveVisits: 1}},
	{"model.TaskType(type='t', description='d', backend_name='b', default_interval=timedelta(days=64), backoff_factor=2.0)",
		model.TaskType{Type: "t", Description: "d", BackendName: "b", DefaultInterval: pointer(64 * 24 * time.Hour), BackoffFactor: pointer(2.0), MaxQueueLength: pointer(int64(1000))}},
	{"model.TaskRun(task=1, id=2, backend_id='b', metadata={'k': 'v'})",
		model.TaskRun{Task: 1, ID: 2, BackendID: pointer("b"), Metadata: json.RawMessage(`{"k":"v"}`), Status: model.RunScheduled}},
	{"model.SchedulerMetrics(lister_id=UUID('6fa459ea-ee8a-3ca4-894e-db77e160355e'), visit_type='git', last_update=datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=timezone.utc), origins_known=3)",
		model.Metrics{ListerID: someID, VisitType: "git", LastUpdate: someTime, OriginsKnown: 3}},
}

func slicesRepeat(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = int64(0)
	}
	return list
}

// The decoder reads output of the Python scheduler's serialisers as they meant it. The encoder's output equals
// theirs, in msgpack byte for byte.
func TestCodecAgainstThePeers(t *testing.T) {
	t.Parallel()
	const script = `
import base64, json, sys
from datetime import datetime, timedelta, timezone
from uuid import UUID
from swh.core.api.serializers import json_dumps, msgpack_dumps
from swh.scheduler import model
from swh.scheduler.api.serializers import ENCODERS
out = []
for text in json.load(sys.stdin):
    value = eval(text)
    out.append([base64.b64encode(msgpack_dumps(value, extra_encoders=ENCODERS)).decode(), json_dumps(value, extra_encoders=ENCODERS)])
json.dump(out, sys.stdout)
`
	var texts []string
	for _, v := range everyValue {
		texts = append(texts, v.python)
	}
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-W", "ignore", "-c", script)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var written [][2]string
	if err := json.Unmarshal(out, &written); err != nil {
		t.Fatal(err)
	}
	for i, v := range everyValue {
		packed, err := base64.StdEncoding.DecodeString(written[i][0])
		if err != nil {
			t.Fatal(err)
		}
		for mime, body := range map[string][]byte{mimeMsgpack: packed, mimeJSON: []byte(written[i][1])} {
			got, err := decode(mime, body)
			if err != nil {
				t.Errorf("%s %s: %v", mime, v.python, err)
				continue
			}
			if diff := cmp.Diff(v.value, got, compareValues); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", mime, v.python, diff)
			}
		}
		// Where a float is among the arguments, the two agree; a whole container
		// in JSON text is written with room for its length.
		if got := encode(t, mimeMsgpack, v.value); !bytes.Equal(got, packed) && !strings.Contains(v.python, "{'") {
			t.Errorf("%s in msgpack:\n%q, the Python scheduler\n%q", v.python, got, packed)
		}
	}
}

// Decoding an encoded value yields that value, in both formats.
func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, v := range everyValue {
		for _, mime := range []string{mimeMsgpack, mimeJSON} {
			got, err := decode(mime, encode(t, mime, v.value))
			if err != nil {
				t.Errorf("%s %s: %v", mime, v.python, err)
				continue
			}
			if diff := cmp.Diff(v.value, got, compareValues); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", mime, v.python, diff)
			}
		}
	}
}

// Bytes of any length survive base 85.
func TestBase85(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		got, err := decodeBase85(string(appendBase85(nil, b)))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%v: %v, %v", b, got, err)
		}
	})
}

// A malformed document is refused with an exception that names the fault.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	tag := func(name, value string) string { return `{"swhtype": "` + name + `", "d": ` + value + `}` }
	for _, c := range []struct{ name, mime, body, class string }{
		{"nothing", mimeMsgpack, "\x81", "ValueError"},
		{"a key without value", mimeMsgpack, "\x81\xa1a", "ValueError"},
		{"a list that cannot be there", mimeMsgpack, "\xdd\xff\xff\xff\xff", "ValueError"},
		{"a dict that cannot be there", mimeMsgpack, "\xdf\xff\xff\xff\xff", "ValueError"},
		{"a text that cannot be there", mimeMsgpack, "\xdb\xff\xff\xff\xff", "ValueError"},
		{"more than one document", mimeMsgpack, "\x80\x80", "ExtraData"},
		{"a code that is none", mimeMsgpack, "\xc1", "FormatError"},
		{"a text that is no UTF-8", mimeMsgpack, "\xa1\xff", "UnicodeDecodeError"},
		{"a list as key", mimeMsgpack, "\x81\x90\x00", "TypeError"},
		{"an extension nobody knows", mimeMsgpack, "\xd4\x07\x00", "ValueError"},
		{"a time after the year 9999", mimeMsgpack, "\xc7\x0c\xff\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", "OverflowError"},
		{"a time of three bytes", mimeMsgpack, "\xc7\x03\xff\x00\x00\x00", "ValueError"},
		{"an integer of 1025 bytes", mimeMsgpack, "\xc8\x04\x01\x01" + strings.Repeat("\xff", 1025), "ValueError"},
		{"too deep", mimeMsgpack, strings.Repeat("\x91", 600) + "\xc0", "ValueError"},
		{"too deep", mimeJSON, strings.Repeat("[", 600) + strings.Repeat("]", 600), "ValueError"},
		{"no JSON", mimeJSON, "{", "JSONDecodeError"},
		{"more than one document", mimeJSON, "{} {}", "JSONDecodeError"},
		{"no UTF-8", mimeJSON, "\"\xff\"", "UnicodeDecodeError"},
		{"no UUID", mimeJSON, tag("uuid", `"x"`), "ValueError"},
		{"a number as UUID", mimeJSON, tag("uuid", `1`), "AttributeError"},
		{"no date", mimeJSON, tag("datetime", `"yesterday"`), "ParseError"},
		{"an unknown class", mimeJSON, tag("scheduler_model", `{"__type__": "os"}`), "AttributeError"},
		{"no class", mimeJSON, tag("scheduler_model", `{}`), "KeyError"},
		{"an unknown field", mimeJSON, tag("scheduler_model", `{"__type__": "TaskArguments", "x": 1}`), "TypeError"},
		{"a missing field", mimeJSON, tag("scheduler_model", `{"__type__": "TaskRun"}`), "TypeError"},
		{"a field of the wrong type", mimeJSON, tag("scheduler_model", `{"__type__": "Lister", "name": 1, "instance_name": ""}`), "AttributeTypeError"},
		{"an unknown literal", mimeJSON, tag("scheduler_model", `{"__type__": "TaskRun", "task": 1, "status": "x"}`), "LiteralError"},
		{"an unknown visit status", mimeJSON, tag("last_visit_status", `"x"`), "ValueError"},
		{"a timedelta of texts", mimeJSON, tag("timedelta", `{"days": "x"}`), "TypeError"},
		{"a timedelta of weeks unknown", mimeJSON, tag("timedelta", `{"years": 1}`), "TypeError"},
		{"a timedelta beyond all use", mimeJSON, tag("timedelta", `{"days": 999999999}`), "OverflowError"},
		{"bytes that are none", mimeJSON, tag("bytes", `"\""`), "ValueError"},
	} {
		_, err := decode(c.mime, []byte(c.body))
		x, ok := errors.AsType[*exception](err)
		if !ok || x.class != c.class {
			t.Errorf("%s: %v, want %s", c.name, err, c.class)
		}
	}
}

// A small request can't make the server allocate more than the limits.
func TestLimits(t *testing.T) {
	t.Parallel()
	l := limits{depth: 3, values: 10}
	for _, c := range []struct {
		name    string
		body    string
		refused bool
	}{
		{"as deep as may be", "\x91\x91\x91\xc0", false},
		{"deeper", "\x91\x91\x91\x91\xc0", true},
		{"a list beside another is no deeper", "\x92\x91\x91\xc0\x91\x91\xc0", false},
		{"as many as may be", "\x99" + strings.Repeat("\xc0", 9), false},
		{"more", "\x9a" + strings.Repeat("\xc0", 10), true},
	} {
		_, err := readMsgpack([]byte(c.body), l)
		x, _ := errors.AsType[*exception](err)
		if (err != nil) != c.refused || c.refused && x.status != statusTooLarge {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzReadMsgpack(f *testing.F) {
	for _, v := range []string{"\x80", "\x82\xc4\x07swhtype\xa4uuid\xc4\x01d\xa1x", "\xc7\x0c\xff\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", "\xdd\xff\xff\xff\xff"} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, body []byte) { fuzz(t, mimeMsgpack, body) })
}

func FuzzReadJSON(f *testing.F) {
	for _, v := range []string{"{}", `{"swhtype": "timedelta", "d": {"days": 1e300}}`, `[1e400, -0, 1.50]`, `{"swhtype": "bytes", "d": "0"}`} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, body []byte) { fuzz(t, mimeJSON, body) })
}

// fuzz reads anything: it is refused with an exception, or is a value whose JSON
// (if it has one) is valid.
func fuzz(t *testing.T, mime string, body []byte) {
	value, err := decode(mime, body)
	if err != nil {
		if _, ok := errors.AsType[*exception](err); !ok {
			t.Fatalf("%T: %v", err, err)
		}
		return
	}
	typeName(value)
	truth(value)
	if text, err := appendJSONValue(nil, value); err == nil && !json.Valid(text) {
		t.Fatalf("%v becomes %s", value, text)
	}
	if d, ok := value.(dict); ok {
		value, _ := d.get("a")
		f := fields{mode: ofCall}
		textsAs[string]().read(&f, value)
		looseObject.read(&f, value)
	}
}
