package celery

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// sink is a connection that stores what is written to it.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }
func (s *sink) Read(p []byte) (int, error)  { return s.Buffer.Read(p) }

// Outgoing content headers get a missing priority. No other byte changes, however the library splits its writes.
func TestOutgoingFrames(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		short := func(name string) []byte {
			text := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, name)
			return append([]byte{byte(len(text))}, text...)
		}
		frame := func(kind byte, payload []byte) []byte {
			b := binary.BigEndian.AppendUint32([]byte{kind, 0, 1}, uint32(len(payload)))
			return append(append(b, payload...), frameEnd)
		}
		in, want := []byte("AMQP\x00\x00\x09\x01"), []byte("AMQP\x00\x00\x09\x01")
		for range rapid.IntRange(0, 6).Draw(t, "frames") {
			if rapid.Bool().Draw(t, "other") {
				kind := rapid.SampledFrom([]byte{1, frameBody, 8}).Draw(t, "kind")
				f := frame(kind, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "payload"))
				in, want = append(in, f...), append(want, f...)
				continue
			}
			flags := rapid.Uint16().Draw(t, "flags") &^ 1
			var before, after []byte
			if flags&flagContentType != 0 {
				before = append(before, short("type")...)
			}
			if flags&flagContentEncoding != 0 {
				before = append(before, short("encoding")...)
			}
			if flags&flagHeaders != 0 {
				table := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "table")
				before = append(binary.BigEndian.AppendUint32(before, uint32(len(table))), table...)
			}
			if flags&flagDeliveryMode != 0 {
				before = append(before, 2)
			}
			priority := []byte{0}
			if flags&flagPriority != 0 {
				priority[0] = rapid.Byte().Draw(t, "priority")
			}
			after = rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "after")
			start := []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}
			header := func(flags uint16, priority []byte) []byte {
				payload := binary.BigEndian.AppendUint16(bytes.Clone(start), flags)
				return frame(frameHeader, bytes.Join([][]byte{payload, before, priority, after}, nil))
			}
			want = append(want, header(flags|flagPriority, priority)...)
			if flags&flagPriority == 0 {
				priority = nil
			}
			in = append(in, header(flags, priority)...)
		}
		out := &sink{}
		c := newFramedConn(out, 0)
		if n, err := c.Write(in[:8]); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		for rest := in[8:]; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if written, err := c.Write(rest[:n]); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, out.Bytes()); diff != "" {
			t.Error(diff)
		}
	})
}
