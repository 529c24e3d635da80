package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"swh-scheduler/internal/scheduler"
)

// Kinds of records that are set aside.
const (
	KindMalformed     = "malformed"      // not one whole msgpack map
	KindTooLarge      = "too_large"      // more than maxValueBytes
	KindMissingKey    = "missing_key"    // a key that every final status has
	KindWrongType     = "wrong_type"     // a value of another type than the peer's
	KindBadDate       = "bad_date"       // no date, no zone, or outside years 1 to 9999
	KindBadText       = "bad_text"       // not UTF-8, or a NUL, which PostgreSQL refuses
	KindUnknownStatus = "unknown_status" // neither a final status nor one on the way
	KindRefused       = "refused"        // PostgreSQL refused its values
)

var kinds = []string{
	KindMalformed, KindTooLarge, KindMissingKey, KindWrongType,
	KindBadDate, KindBadText, KindUnknownStatus, KindRefused,
}

// maxValueBytes is the longest value that is decoded: what Kafka itself takes
// unless a topic is told otherwise. A visit status is a few hundred bytes.
const maxValueBytes = 1 << 20

// A RejectError says why a record is set aside.
type RejectError struct {
	Kind   string
	Detail string
}

func (e *RejectError) Error() string { return e.Kind + ": " + e.Detail }

func reject(kind, format string, args ...any) *RejectError {
	return &RejectError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

var errUnexpectedEnd = reject(KindMalformed, "the value ends in the middle")

// A decoder reads the values of the topic origin_visit_status. It takes what it
// needs from the map and steps over the rest, whatever it is. It belongs to one
// goroutine.
type decoder struct {
	r   bytes.Reader
	dec *msgpack.Decoder
	buf []byte
	// visitTypes shares one string a visit type: there are few, in many records.
	visitTypes map[string]string
}

// maxSharedTypes bounds decoder.visitTypes against a topic full of rubbish.
const maxSharedTypes = 256

func newDecoder() *decoder {
	d := &decoder{visitTypes: make(map[string]string)}
	d.dec = msgpack.NewDecoder(&d.r)
	return d
}

// text is a string of the record as it was found.
type text struct {
	present bool
	isText  bool // false: of another type
	value   string
}

// statusRecord is what the journal says, not yet judged.
type statusRecord struct {
	origin, visitType, status text

	datePresent bool
	date        time.Time
	dateErr     *RejectError

	snapshotPresent bool
	snapshotErr     *RejectError
	snapshot        []byte // nil for nil
}

// decode reads one value. final is false for a record that says nothing of how
// a visit ended (still on its way, or so old that it has no visit type), which
// the peer steps over too. The error is a *RejectError.
func (d *decoder) decode(value []byte) (v Visit, final bool, err error) {
	if len(value) > maxValueBytes {
		return Visit{}, false, reject(KindTooLarge, "%d bytes, the limit is %d", len(value), maxValueBytes)
	}
	d.r.Reset(value)
	d.dec.ResetReader(&d.r)
	rec, err := d.record()
	if err != nil {
		return Visit{}, false, asReject(err)
	}
	if d.r.Len() > 0 {
		return Visit{}, false, reject(KindMalformed, "%d bytes after the end", d.r.Len())
	}
	return rec.visit()
}

// asReject gives an error of the msgpack library a kind.
func asReject(err error) error {
	var rejected *RejectError
	switch {
	case errors.As(err, &rejected):
		return rejected
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errUnexpectedEnd
	default:
		return reject(KindMalformed, "%s", err)
	}
}

// visit judges the record in the order in which the peer looks at it, so that
// what the peer steps over is stepped over.
func (rec statusRecord) visit() (Visit, bool, error) {
	if !rec.visitType.present {
		return Visit{}, false, nil
	}
	status, err := rec.status.check("status")
	if err != nil {
		return Visit{}, false, err
	}
	if status == "created" || status == "ongoing" {
		return Visit{}, false, nil
	}
	url, err := rec.origin.check("origin")
	if err != nil {
		return Visit{}, false, err
	}
	visitType, err := rec.visitType.check("type")
	if err != nil {
		return Visit{}, false, err
	}
	if !rec.datePresent {
		return Visit{}, false, reject(KindMissingKey, "no key %q", "date")
	}
	if rec.dateErr != nil {
		return Visit{}, false, rec.dateErr
	}
	v := Visit{OriginKey: scheduler.OriginKey{URL: url, VisitType: visitType}, Date: rec.date}
	switch status {
	case "full", "partial":
		if !rec.snapshotPresent {
			return Visit{}, false, reject(KindMissingKey, "no key %q", "snapshot")
		}
		if rec.snapshotErr != nil {
			return Visit{}, false, rec.snapshotErr
		}
		v.Status, v.Snapshot = scheduler.VisitSuccessful, rec.snapshot
		if v.Snapshot == nil {
			v.Status = scheduler.VisitFailed
		}
	case "failed":
		v.Status = scheduler.VisitFailed
	case "not_found":
		v.Status = scheduler.VisitNotFound
	default:
		return Visit{}, false, reject(KindUnknownStatus, "status %.100q", status)
	}
	return v, true, nil
}

func (t text) check(key string) (string, error) {
	switch {
	case !t.present:
		return "", reject(KindMissingKey, "no key %q", key)
	case !t.isText:
		return "", reject(KindWrongType, "%s is not a string", key)
	case !utf8.ValidString(t.value):
		return "", reject(KindBadText, "%s is not UTF-8: %.200q", key, t.value)
	case strings.IndexByte(t.value, 0) >= 0:
		return "", reject(KindBadText, "%s has a NUL: %.200q", key, t.value)
	}
	return t.value, nil
}

func (d *decoder) record() (rec statusRecord, err error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return rec, err
	}
	if code == msgpcode.Nil { // the peer drops it
		return rec, d.dec.DecodeNil()
	}
	if !isMap(code) {
		return rec, reject(KindMalformed, "not a map")
	}
	n, err := d.dec.DecodeMapLen()
	if err != nil {
		return rec, err
	}
	for range n {
		key, err := d.key()
		if err != nil {
			return rec, err
		}
		switch string(key) {
		case "origin":
			rec.origin, err = d.text(nil)
		case "type":
			rec.visitType, err = d.text(d.visitTypes)
		case "status":
			rec.status, err = d.text(nil)
		case "date":
			rec.datePresent = true
			rec.date, rec.dateErr, err = d.date()
		case "snapshot":
			rec.snapshotPresent = true
			rec.snapshot, rec.snapshotErr, err = d.snapshot()
		default:
			err = d.skip()
		}
		if err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// longestKey is the length of the longest key that matters.
const longestKey = len("snapshot")

// key reads a key of the record's map; nil is one that means nothing here, of
// whatever type. The bytes are valid until the next read.
func (d *decoder) key() ([]byte, error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return nil, err
	}
	if !msgpcode.IsString(code) {
		return nil, d.skip()
	}
	n, err := d.dec.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if n > longestKey {
		return nil, d.discard(n)
	}
	return d.bytes(n)
}

// text reads a string, or steps over something else. shared, if not nil, is
// where equal strings are kept once.
func (d *decoder) text(shared map[string]string) (text, error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return text{}, err
	}
	if !msgpcode.IsString(code) {
		return text{present: true}, d.skip()
	}
	n, err := d.dec.DecodeBytesLen()
	if err != nil {
		return text{}, err
	}
	b, err := d.bytes(n)
	if err != nil {
		return text{}, err
	}
	if shared == nil {
		return text{present: true, isText: true, value: string(b)}, nil
	}
	value, known := shared[string(b)]
	if !known {
		value = string(b)
		if len(shared) < maxSharedTypes {
			shared[value] = value
		}
	}
	return text{present: true, isText: true, value: value}, nil
}

// snapshot reads bytes or nil.
func (d *decoder) snapshot() ([]byte, *RejectError, error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case code == msgpcode.Nil:
		return nil, nil, d.dec.DecodeNil()
	case !msgpcode.IsBin(code):
		return nil, reject(KindWrongType, "snapshot is not bytes"), d.skip()
	}
	n, err := d.dec.DecodeBytesLen()
	if err != nil {
		return nil, nil, err
	}
	b, err := d.bytes(n)
	if err != nil {
		return nil, nil, err
	}
	return append(make([]byte, 0, n), b...), nil, nil // not nil, even if empty
}

// timestampExt is msgpack's own extension type for points in time.
const timestampExt = -1

// date reads a Timestamp, or the map that stood for one in older records.
func (d *decoder) date() (time.Time, *RejectError, error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return time.Time{}, nil, err
	}
	switch {
	case msgpcode.IsExt(code):
		ext, n, err := d.dec.DecodeExtHeader()
		if err != nil {
			return time.Time{}, nil, err
		}
		b, err := d.bytes(n)
		if err != nil {
			return time.Time{}, nil, err
		}
		if ext != timestampExt {
			return time.Time{}, reject(KindWrongType, "date is of extension type %d", ext), nil
		}
		t, rejected := timestamp(b)
		return t, rejected, nil
	case isMap(code):
		return d.taggedDate()
	}
	return time.Time{}, reject(KindWrongType, "date is no Timestamp"), d.skip()
}

// timestamp reads the three widths of msgpack's Timestamp. Python keeps whole
// microseconds, and so does PostgreSQL.
func timestamp(b []byte) (time.Time, *RejectError) {
	var sec int64
	var nsec uint32
	switch len(b) {
	case 4:
		sec = int64(binary.BigEndian.Uint32(b))
	case 8:
		v := binary.BigEndian.Uint64(b)
		nsec, sec = uint32(v>>34), int64(v&(1<<34-1))
	case 12:
		nsec, sec = binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint64(b[4:]))
	default:
		return time.Time{}, reject(KindBadDate, "a Timestamp of %d bytes", len(b))
	}
	if nsec > 999_999_999 {
		return time.Time{}, reject(KindBadDate, "a Timestamp with %d nanoseconds", nsec)
	}
	if sec < firstSecond || sec > lastSecond {
		return time.Time{}, reject(KindBadDate, "%d seconds from 1970 is outside years 1 to 9999", sec)
	}
	return time.Unix(sec, int64(nsec/1000*1000)).UTC(), nil
}

// The bounds of Python's datetime, which lie within those of PostgreSQL: beyond
// them the Python programs that share the database could not read the row.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// taggedDate reads {"swhtype": "datetime", "d": ISO 8601}, its strings of
// either type.
func (d *decoder) taggedDate() (time.Time, *RejectError, error) {
	n, err := d.dec.DecodeMapLen()
	if err != nil {
		return time.Time{}, nil, err
	}
	var tag, iso string
	for range n {
		key, _, err := d.loose()
		if err != nil {
			return time.Time{}, nil, err
		}
		value, _, err := d.loose()
		if err != nil {
			return time.Time{}, nil, err
		}
		switch key {
		case "swhtype":
			tag = value
		case "d":
			iso = value
		}
	}
	if n != 2 || tag != "datetime" {
		return time.Time{}, reject(KindWrongType, "date is a map, but not of a datetime"), nil
	}
	t, rejected := isoDate(iso)
	return t, rejected, nil
}

// maxLoose is longer than any key or date of a tagged date.
const maxLoose = 64

// loose reads a short string or bytes; ok is false for anything else.
func (d *decoder) loose() (s string, ok bool, err error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return "", false, err
	}
	if !msgpcode.IsString(code) && !msgpcode.IsBin(code) {
		return "", false, d.skip()
	}
	n, err := d.dec.DecodeBytesLen()
	if err != nil {
		return "", false, err
	}
	if n > maxLoose {
		return "", false, d.discard(n)
	}
	b, err := d.bytes(n)
	return string(b), err == nil, err
}

// isoLayouts are the forms of Python's datetime.isoformat, with a zone; Go reads
// a fraction of a second where none is in the layout.
var isoLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z07:00:00", "2006-01-02 15:04:05Z07:00:00",
}

func isoDate(s string) (time.Time, *RejectError) {
	for _, layout := range isoLayouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if sec := t.Unix(); sec < firstSecond || sec > lastSecond {
			return time.Time{}, reject(KindBadDate, "%q is outside years 1 to 9999", s)
		}
		return t.UTC().Truncate(time.Microsecond), nil
	}
	return time.Time{}, reject(KindBadDate, "%.100q is no ISO 8601 date with a time zone", s)
}

// bytes reads n bytes, valid until the next read. Nothing is allocated for a
// length that the value does not have.
func (d *decoder) bytes(n int) ([]byte, error) {
	if n > d.r.Len() {
		return nil, errUnexpectedEnd
	}
	if n > cap(d.buf) {
		d.buf = make([]byte, n)
	}
	b := d.buf[:n]
	return b, d.dec.ReadFull(b)
}

func (d *decoder) discard(n int) error {
	if n > d.r.Len() {
		return errUnexpectedEnd
	}
	_, err := d.r.Seek(int64(n), io.SeekCurrent)
	return err
}

// skip steps over one object of any type. It counts the objects still to come
// rather than calling itself, so that no nesting is too deep.
func (d *decoder) skip() error {
	for left := 1; left > 0; left-- {
		more, err := d.skipOne()
		if err != nil {
			return err
		}
		left += more
		if left-1 > d.r.Len() { // each is a byte at least
			return errUnexpectedEnd
		}
	}
	return nil
}

// skipOne steps over one object, of a list or map only its head, and says how
// many objects that list or map holds.
func (d *decoder) skipOne() (int, error) {
	code, err := d.dec.PeekCode()
	if err != nil {
		return 0, err
	}
	switch {
	case msgpcode.IsString(code), msgpcode.IsBin(code):
		n, err := d.dec.DecodeBytesLen()
		if err != nil {
			return 0, err
		}
		return 0, d.discard(n)
	case msgpcode.IsExt(code):
		_, n, err := d.dec.DecodeExtHeader()
		if err != nil {
			return 0, err
		}
		return 0, d.discard(n)
	case isMap(code):
		n, err := d.dec.DecodeMapLen()
		return 2 * n, err
	case isArray(code):
		return d.dec.DecodeArrayLen()
	}
	width, ok := scalarWidth(code)
	if !ok {
		return 0, reject(KindMalformed, "no object begins with %#x", code)
	}
	return 0, d.discard(1 + width)
}

func isMap(code byte) bool {
	return msgpcode.IsFixedMap(code) || code == msgpcode.Map16 || code == msgpcode.Map32
}

func isArray(code byte) bool {
	return msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32
}

// scalarWidth is how many bytes follow the code of a number, boolean or nil.
func scalarWidth(code byte) (int, bool) {
	if msgpcode.IsFixedNum(code) {
		return 0, true
	}
	switch code {
	case msgpcode.Nil, msgpcode.False, msgpcode.True:
		return 0, true
	case msgpcode.Uint8, msgpcode.Int8:
		return 1, true
	case msgpcode.Uint16, msgpcode.Int16:
		return 2, true
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 4, true
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 8, true
	}
	return 0, false
}
