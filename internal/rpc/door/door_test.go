package door

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// encode writes messages of either side.
func encode(t testing.TB, messages ...pgproto3.Message) (stream []byte) {
	t.Helper()
	for _, m := range messages {
		var err error
		if stream, err = m.Encode(stream); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// The messages of a stream are found wherever it is divided.
func TestFrames(t *testing.T) {
	t.Parallel()
	stream := encode(t, &pgproto3.RowDescription{}, &pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("Z"), 100)}},
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, &pgproto3.ReadyForQuery{TxStatus: 'T'}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	for size := range len(stream) {
		var f frames
		found := ""
		for part := range slices.Chunk(stream, size+1) {
			if err := f.read(part, func(kind, status byte) {
				found += string(kind)
				if kind == readyForQuery {
					found += string(status)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if found != "TDCZTZI" || !f.between() {
			t.Errorf("in parts of %d bytes: %s, between messages: %t", size+1, found, f.between())
		}
	}
}

// What is passed on ends between messages, unless a message is larger than the buffer.
func TestWholeMessages(t *testing.T) {
	t.Parallel()
	row := func(size int) []byte {
		return encode(t, &pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("x"), size)}})
	}
	stream := slices.Concat(row(10), row(100), row(1), row(300), row(20), encode(t, &pgproto3.ReadyForQuery{TxStatus: 'I'}))
	for _, room := range []int{20, 64, 150, 1000} {
		for size := range room {
			var read, passed frames
			var got []byte
			buffer, held := make([]byte, room), 0
			for rest := stream; len(rest) > 0; {
				n := copy(buffer[held:], rest[:min(size+1, len(rest))])
				if n == 0 {
					t.Fatalf("room for %d: full", room)
				}
				if err := read.read(buffer[held:held+n], func(byte, byte) {}); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				whole := read.whole(held+n, room)
				if err := passed.read(buffer[:whole], func(byte, byte) {}); err != nil {
					t.Fatal(err)
				}
				if !passed.between() && passed.size <= room {
					t.Errorf("room for %d, in parts of %d: a message of %d bytes is passed in parts", room, size+1, passed.size)
				}
				got = append(got, buffer[:whole]...)
				held = copy(buffer, buffer[whole:held+n])
			}
			if !bytes.Equal(got, stream) {
				t.Errorf("room for %d, in parts of %d: %d bytes of %d came", room, size+1, len(got), len(stream))
			}
		}
	}
}

// Signs of life between messages are dropped; the same bytes in a message, or in another protocol, are not.
func TestSigns(t *testing.T) {
	t.Parallel()
	row := encode(t, &pgproto3.DataRow{Values: [][]byte{signOfLife, []byte("x")}})
	for name, c := range map[string]struct {
		parts []string
		want  string
	}{
		"alone":                   {[]string{string(signOfLife), string(row)}, string(row)},
		"before others":           {[]string{string(signOfLife) + string(signOfLife) + string(row)}, string(row)},
		"in a message":            {[]string{string(row[:11]), string(row[11:])}, string(row)},
		"behind others":           {[]string{string(row) + string(signOfLife)}, string(row) + string(signOfLife)},
		"divided":                 {[]string{string(signOfLife[:9]), string(signOfLife[9:])}, string(signOfLife)},
		"another protocol's part": {[]string{"hello world", string(signOfLife)}, "hello world" + string(signOfLife)},
	} {
		var s signs
		got := ""
		for _, text := range c.parts {
			part := []byte(text)
			got += string(part[:s.drop(part, len(part))])
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A session is idle once the server has answered everything, outside of a transaction.
func TestState(t *testing.T) {
	t.Parallel()
	for history, want := range map[string]bool{ // ">" the client's message, "<" the server's, with the status of Z
		"":                            true,
		">Q":                          false,
		">Q <T <D <C <ZI":             true,
		">Q <C <ZT":                   false,
		">Q <C <ZT >Q <C <ZI":         true,
		">Q <E <ZE":                   false,
		">P >B >E >S":                 false,
		">P >B >E >S <1 <2 <C <ZI":    true,
		">P >B >E >H <1 <2 <C":        true, // without a sync, nothing is asked for that ends
		">S >S <ZI":                   false,
		">Q >Q <ZI <ZI":               true,
		">F <V <ZI":                   true,
		">Q <G >d >d":                 false,
		">Q <G >d >c <C <ZI":          true,
		">Q <G >d >f <E <ZI":          true,
		">P >B >E >S <G >d >c >S <ZI": true, // libpq: the sync before the copy is ignored
		">P >B >E >S <G >S >d >c >S":  false,
		">Q <C <ZI <A <S":             true,
	} {
		s := state{status: 'I'}
		for word := range strings.FieldsSeq(history) {
			if word[0] == '>' {
				s.sent(word[1], 0)
			} else {
				s.answered(word[1], (word + " ")[2])
			}
		}
		if s.idle() != want {
			t.Errorf("%s: idle is %t", history, s.idle())
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(encode(f, &pgproto3.Query{String: "select 1"}, &pgproto3.ReadyForQuery{TxStatus: 'I'}), uint8(3))
	f.Add([]byte{'Z', 0, 0, 0, 4, 0, 0, 0, 0}, uint8(1))
	f.Add([]byte{'d', 0x7f, 0xff, 0xff, 0xff}, uint8(7))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		read := func(size int) (found string, err error) {
			var f frames
			for part := range slices.Chunk(stream, size) {
				if err = f.read(part, func(kind, _ byte) { found += string([]byte{kind}) }); err != nil {
					break
				}
			}
			return found, err
		}
		whole, err := read(len(stream) + 1)
		if divided, other := read(int(size) + 1); divided != whole || (err == nil) != (other == nil) {
			t.Errorf("%q %v, divided %q %v", whole, err, divided, other)
		}
		if len(whole) > len(stream)/headLength {
			t.Errorf("%d messages in %d bytes", len(whole), len(stream))
		}
	})
}

// counted counts what is read of a stream.
type counted struct {
	*bytes.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counted) Write(p []byte) (int, error) { return len(p), nil }

// Whatever a client sends first, no more than its start-up is read, which is small.
func FuzzStartup(f *testing.F) {
	f.Add(encode(f, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u", "TimeZone": "UTC", "application_name": "a"}}))
	f.Add(append(encode(f, &pgproto3.SSLRequest{}, &pgproto3.GSSEncRequest{}, &pgproto3.SSLRequest{}, &pgproto3.SSLRequest{}), 1, 2, 3))
	f.Add(encode(f, &pgproto3.CancelRequest{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}}))
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, sent []byte) {
		client := &counted{Reader: bytes.NewReader(sent)}
		message, err := receiveStartup(client)
		if client.read > maxAsked*maxStartup {
			t.Errorf("%d bytes were read", client.read)
		}
		if (message == nil) != (err != nil) {
			t.Errorf("%v %v", message, err)
		}
		if start, ok := message.(*pgproto3.StartupMessage); ok {
			session, unknown, err := sessionOf(start)
			size := len(unknown)
			for name, value := range session {
				size += len(name) + len(value)
			}
			if size > len(sent) || err != nil && len(err.Error()) > 2000 {
				t.Errorf("%d bytes of parameters: %v", size, err)
			}
		}
		if rest, _ := io.ReadAll(client.Reader); message != nil && client.read+len(rest) != len(sent) {
			t.Error("bytes are lost")
		}
	})
}

// What is counted leaves nothing behind.
func TestCountsForgetWhoLeft(t *testing.T) {
	t.Parallel()
	c := newCounts(Limits{Connections: 10, PerClient: 2, PerAddress: 3})
	from := netip.MustParsePrefix("192.0.2.1/32")
	var ends []func()
	for i := range 3 {
		end, reason, _ := c.open(fmt.Sprint(i%2), from)
		if end == nil {
			t.Fatal(reason)
		}
		started, ok := c.start(from)
		if !ok {
			t.Fatal("too many start")
		}
		ends = append(ends, end, end, started, started) // twice is once
	}
	if _, reason, text := c.open("2", from); reason != refusedByAddress || !strings.Contains(text, "192.0.2.1") {
		t.Error(reason, text)
	}
	for _, end := range ends {
		end()
	}
	if c.all+c.starting+len(c.clients)+len(c.addresses)+len(c.startingFrom) != 0 {
		t.Errorf("%+v", c)
	}
}

// Names of clients are anybody's: few have series of their own.
func TestClientsLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMetrics(prometheus.NewRegistry())
	m.of("evil\"\n").opened.Inc()
	for i := range 10 * maxLabels {
		m.of(fmt.Sprintf("swh-scheduler %d", i)).opened.Inc()
	}
	if n := testutil.CollectAndCount(m.opened); n > maxLabels+1 || len(m.labels) > maxLabels+1 {
		t.Errorf("%d series, %d labels", n, len(m.labels))
	}
	if n := testutil.ToFloat64(m.of("swh-scheduler 3").opened); n != 1 {
		t.Errorf("%v", n)
	}
}
