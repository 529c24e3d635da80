package celery

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// captures adds every captured body of a directory to a fuzz test's seeds.
func captures(f *testing.F, dir string, add func(body []byte)) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures in %s: %v", dir, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		add(body)
	}
}

// The decoder of events never panics. It accepts all valid JSON, and returns only valid JSON.
func FuzzDecodeEvents(f *testing.F) {
	captures(f, "events", func(body []byte) { f.Add(body) })
	for _, seed := range []string{
		`[1,2]`, `{"uuid":"x"}`, `[]`, `{}`, `[{}]`, `null`, `{"type":5}`, `{"type":"task-started","uuid":5,"timestamp":1e999}`,
		`{"type":"task-failed","uuid":"u","traceback":"\ud800 \u0000","exception":null}`, `{"type":"task-result","result":[NaN,-Infinity,"NaN"]}`,
		`{"type":"x","type":"task-sent","a":{"b":[[]]}}`, "[{\"type\":\"\xff\"}]", strings.Repeat("[", 1100),
		`{"type":"worker-heartbeat","loadavg":[1,"x"],"clock":-1,"pid":99999999999999999999,"active":1.5}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := DecodeEvents(body, contentTypeJSON)
		for _, e := range events {
			for name, raw := range e.Fields {
				if !json.Valid(raw) {
					t.Errorf("field %q is no JSON: %q", name, raw)
				}
			}
			if e.Type == "" || !utf8.ValidString(e.Type) || !utf8.ValidString(e.UUID) {
				t.Errorf("type %q, uuid %q", e.Type, e.UUID)
			}
		}
		var some EventErrors
		if err != nil && !errors.As(err, &some) && !errors.Is(err, errTooDeep) && json.Valid(body) {
			t.Errorf("JSON is refused: %v", err)
		}
	})
}

// The decoder of msgpack returns valid JSON or an error, and never panics.
func FuzzMsgpackToJSON(f *testing.F) {
	for _, seed := range []string{
		"\x80", "\x90", "\xc0", "\xc1", "\x81\xa4type\xactask-started", "\x81\x01\x02", "\x81\x90\x02", "\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff",
		"\xc6\xff\xff\xff\xff", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "\xca\x3f\x80\x00\x00", "\xc4\x02\xff\xfe", "\xa2\xff\xfe", "\xd6\xff\x00\x00\x00\x01",
		"\xd7\xff\x00\x00\x00\x04\x00\x00\x00\x01", "\xc7\x0c\xff\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01", "\xd4\x05\x00", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
		"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xe0\x7f\xff", strings.Repeat("\x91", 1200), "\x92\xc2\xc3", "\xd9\x01a", "\xda\x00\x01a",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, err := msgpackToJSON(body, beyondNumbers)
		if err == nil && !json.Valid(text) {
			t.Errorf("no JSON: %q", text)
		}
		if len(text) > 32*len(body)+32 {
			t.Errorf("%d bytes became %d", len(body), len(text))
		}
		_, _ = DecodeEvents(body, contentTypeMsgpack)
		_, _ = decodeReplies(body, contentTypeMsgpack)
	})
}

// The decoder of replies never panics, whatever the worker's version.
func FuzzDecodeReplies(f *testing.F) {
	for _, seed := range []string{
		`{"worker@host": {"ok": "pong"}}`, `{"worker@host": [{"id": "x", "args": [], "time_start": 1.5}]}`, `{"w": {"error": "no"}}`, `{}`, `[]`, `{"w": NaN}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, body []byte) {
		replies, _ := decodeReplies(body, contentTypeJSON)
		for _, r := range replies {
			_ = r.Decode(&[]TaskInfo{})
			_ = r.Decode(&WorkerStats{})
		}
	})
}

// Any arguments in the database become JSON with the same meaning. Encoding that again returns the same text.
func FuzzArguments(f *testing.F) {
	captures(f, "messages", func(file []byte) {
		var m struct{ Body []byte }
		if err := json.Unmarshal(file, &m); err != nil {
			f.Fatal(err)
		}
		f.Add(m.Body)
	})
	for _, seed := range []string{`[]`, `{}`, `[1e400, -0, 0.1, 1E5, "\ud83d\ude00"]`, `{"a":1,"\u0061":2}`, `[NaN]`, `"\ud800"`, `"'"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v values
		at, err := v.parse(text)
		if err != nil {
			return
		}
		body := v.appendJSON(nil, at)
		if shown := v.appendRepr(nil, at); !utf8.Valid(shown) || utf8.RuneCount(shown) > 3*reprMaxLen {
			t.Errorf("%q is shown as %q", text, shown)
		}
		var again values
		at, err = again.parse(body)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, body, err)
		}
		if second := again.appendJSON(nil, at); !bytes.Equal(body, second) {
			t.Errorf("%q became %q, then %q", text, body, second)
		}
		if json.Valid(text) && json.Valid(body) {
			var x, y any
			_ = json.Unmarshal(text, &x)
			_ = json.Unmarshal(body, &y)
			a, _ := json.Marshal(x)
			b, _ := json.Marshal(y)
			if !bytes.Equal(a, b) {
				t.Errorf("%q became %q", a, b)
			}
		}
	})
}

// The parser of URLs never panics, and never shows a password.
func FuzzParseBroker(f *testing.F) {
	for _, seed := range []string{
		"amqp://h//", "amqp://u:hunter2hunter2@h:5672/%2f", "amqps://u:p@[::1]:1/v?cacertfile=x&verify=verify_none;amqp://b", "h", ";", "amqp://[", "amqp://%", "amqp://a:b@c:d@e",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		b, err := ParseBroker(url, false, nil)
		if err != nil {
			return
		}
		for _, n := range b.nodes {
			others := n.user + n.host + n.vhost + "amqps://:***@/0123456789"
			if len(n.password) > 7 && !strings.Contains(others, n.password) && strings.Contains(n.String(), n.password) {
				t.Errorf("%q shows its password as %s", url, n)
			}
			if n.host == "" || n.port <= 0 || n.port > 65535 || n.vhost == "" {
				t.Errorf("%q has address %s", url, n)
			}
		}
	})
}

// The filter passes frames unchanged except for cut bodies, in pieces of any size. A body never exceeds the limit.
func FuzzIncomingFrames(f *testing.F) {
	frame := func(kind byte, payload []byte) []byte {
		b := append([]byte{kind, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
		return append(append(b, payload...), frameEnd)
	}
	header := frame(frameHeader, append([]byte{0, 60, 0, 0}, binary.BigEndian.AppendUint64(nil, 30)...))
	f.Add(append(append(frame(1, []byte("method")), header...), frame(frameBody, make([]byte, 30))...))
	f.Add(append(append(header, frame(frameBody, make([]byte, 7))...), frame(frameBody, make([]byte, 23))...))
	f.Add([]byte{3, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 10
		c := newFramedConn(streamConn{Reader: iotest.OneByteReader(bytes.NewReader(stream))}, limit)
		out, _ := io.ReadAll(c)
		if len(out) > len(stream) {
			t.Errorf("%d bytes became %d", len(stream), len(out))
		}
		unlimited := newFramedConn(streamConn{Reader: bytes.NewReader(stream)}, 0)
		if out, _ := io.ReadAll(unlimited); !bytes.HasPrefix(stream, out) {
			t.Error("without a limit, frames are changed")
		}
		bodies := 0
		for len(out) >= frameHeaderLen {
			size := int(binary.BigEndian.Uint32(out[3:]))
			switch out[0] {
			case frameHeader:
				bodies = 0
			case frameBody:
				if bodies += size; bodies > (limit+1)*256 { // 256: the limit holds for each channel
					t.Errorf("%d bytes of body pass", bodies)
				}
			}
			out = out[min(len(out), frameHeaderLen+size+1):]
		}
	})
}

// streamConn is a connection for reading only.
type streamConn struct {
	net.Conn
	io.Reader
}

func (c streamConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }
func (streamConn) Close() error                 { return nil }
