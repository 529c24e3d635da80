package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/msgpack"
)

// These are the reasons for setting a record aside.
const (
	KindMalformed     = "malformed"      // not one whole msgpack map
	KindTooLarge      = "too_large"      // more than maxValueBytes
	KindMissingKey    = "missing_key"    // lacks a key that every final status has
	KindWrongType     = "wrong_type"     // a value of another type than the Python scheduler's
	KindBadDate       = "bad_date"       // not a date, no zone, or outside years 1 to 9999
	KindBadText       = "bad_text"       // not UTF-8, or with a NUL, which PostgreSQL refuses
	KindUnknownStatus = "unknown_status" // neither a final nor an intermediate status
	KindRefused       = "refused"        // PostgreSQL refused its values
	KindPanic         = "panic"          // a panic of the program
)

var kinds = []string{
	KindMalformed, KindTooLarge, KindMissingKey, KindWrongType,
	KindBadDate, KindBadText, KindUnknownStatus, KindRefused, KindPanic,
}

// maxValueBytes is the longest value that is decoded: Kafka's default bound of a message. A visit status
// has a few hundred bytes.
const maxValueBytes = 1 << 20

// A RejectError is the reason why a record is set aside.
type RejectError struct {
	Kind   string
	Detail string
}

func (e *RejectError) Error() string { return e.Kind + ": " + e.Detail }

func reject(kind, format string, args ...any) *RejectError {
	return &RejectError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// A decoder decodes the values of the topic origin_visit_status. It reads the needed keys of the map and
// skips the others. It is not safe for concurrent use.
type decoder struct {
	msgpack.Reader
	visitTypes map[string]string // interned: few types, in many records
}

// maxVisitTypes bounds decoder.visitTypes for topics with arbitrary types.
const maxVisitTypes = 256

func newDecoder() *decoder { return &decoder{visitTypes: make(map[string]string)} }

// statusRecord holds the encoded fields of a record, nil if absent.
type statusRecord struct{ origin, visitType, status, date, snapshot []byte }

// decode decodes one value. final is false for a record without the end of a visit: an intermediate status,
// or an old record without a visit type. The Python scheduler skips these, too. The error is a
// *RejectError.
func (d *decoder) decode(value []byte) (v Visit, final bool, err error) {
	if len(value) > maxValueBytes {
		return v, false, reject(KindTooLarge, "%d bytes, the limit is %d", len(value), maxValueBytes)
	}
	d.Rest = value
	rec, err := d.record()
	if err != nil {
		if _, ours := errors.AsType[*RejectError](err); ours {
			return v, false, err
		}
		if code, ok := errors.AsType[msgpack.CodeError](err); ok {
			return v, false, reject(KindMalformed, "no object begins with %#x", byte(code))
		}
		return v, false, reject(KindMalformed, "the value ends in the middle")
	}
	if len(d.Rest) > 0 {
		return v, false, reject(KindMalformed, "%d bytes after the end", len(d.Rest))
	}
	return d.visit(rec)
}

func (d *decoder) record() (rec statusRecord, err error) {
	head, err := d.Next()
	if err != nil || head.Kind == msgpack.Nil { // the Python scheduler drops nil
		return rec, err
	}
	if head.Kind != msgpack.Map {
		return rec, reject(KindMalformed, "not a map")
	}
	ignored := []byte{}
	for range head.Len() {
		key, err := raw(&d.Reader)
		if err != nil {
			return rec, err
		}
		field := &ignored
		if key := first(key); key.Kind == msgpack.Text {
			switch string(key.Data) {
			case "origin":
				field = &rec.origin
			case "type":
				field = &rec.visitType
			case "status":
				field = &rec.status
			case "date":
				field = &rec.date
			case "snapshot":
				field = &rec.snapshot
			}
		}
		if *field, err = raw(&d.Reader); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// raw returns the next value, with its elements, undecoded.
func raw(r *msgpack.Reader) ([]byte, error) {
	all := r.Rest
	err := r.Skip()
	return all[:len(all)-len(r.Rest)], err
}

// first decodes the head of a value from raw.
func first(value []byte) msgpack.Token {
	t, _ := (&msgpack.Reader{Rest: value}).Next()
	return t
}

// visit checks the fields in the Python scheduler's order, so that both skip the same records.
func (d *decoder) visit(rec statusRecord) (v Visit, final bool, err error) {
	if rec.visitType == nil {
		return v, false, nil
	}
	status, err := d.text("status", rec.status)
	if err != nil || status == "created" || status == "ongoing" {
		return v, false, err
	}
	if v.URL, err = d.text("origin", rec.origin); err != nil {
		return v, false, err
	}
	if v.VisitType, err = d.text("type", rec.visitType); err != nil {
		return v, false, err
	}
	if v.Date, err = date(rec.date); err != nil {
		return v, false, err
	}
	switch status {
	case "full", "partial":
		v.Status = model.VisitSuccessful
		if v.Snapshot, err = snapshot(rec.snapshot); v.Snapshot == nil {
			v.Status = model.VisitFailed
		}
	case "failed":
		v.Status = model.VisitFailed
	case "not_found":
		v.Status = model.VisitNotFound
	default:
		err = reject(KindUnknownStatus, "status %.100q", status)
	}
	return v, err == nil, err
}

// text decodes a text that PostgreSQL can store.
func (d *decoder) text(key string, value []byte) (string, error) {
	if value == nil {
		return "", reject(KindMissingKey, "no key %q", key)
	}
	t := first(value)
	switch {
	case t.Kind != msgpack.Text:
		return "", reject(KindWrongType, "%s is not a string", key)
	case !utf8.Valid(t.Data):
		return "", reject(KindBadText, "%s is not UTF-8: %.200q", key, t.Data)
	case slices.Contains(t.Data, 0):
		return "", reject(KindBadText, "%s has a NUL: %.200q", key, t.Data)
	case key != "type":
		return string(t.Data), nil
	}
	shared, known := d.visitTypes[string(t.Data)]
	if !known {
		shared = string(t.Data)
		if len(d.visitTypes) < maxVisitTypes {
			d.visitTypes[shared] = shared
		}
	}
	return shared, nil
}

// snapshot decodes bytes or nil.
func snapshot(value []byte) ([]byte, error) {
	if value == nil {
		return nil, reject(KindMissingKey, "no key %q", "snapshot")
	}
	switch t := first(value); t.Kind {
	case msgpack.Nil:
		return nil, nil
	case msgpack.Bytes:
		return append(make([]byte, 0, len(t.Data)), t.Data...), nil // not nil, even if empty
	}
	return nil, reject(KindWrongType, "snapshot is not bytes")
}

// date decodes a Timestamp, or the map used for dates in older records.
func date(value []byte) (time.Time, error) {
	if value == nil {
		return time.Time{}, reject(KindMissingKey, "no key %q", "date")
	}
	switch head := first(value); {
	case head.Kind == msgpack.Map:
		return taggedDate(value)
	case head.Kind == msgpack.Ext && head.Type == msgpack.TimestampType:
		return timestamp(head.Data)
	case head.Kind == msgpack.Ext:
		return time.Time{}, reject(KindWrongType, "date is of extension type %d", head.Type)
	}
	return time.Time{}, reject(KindWrongType, "date is no Timestamp")
}

// timestamp decodes the three widths of msgpack's Timestamp, to whole microseconds, as Python and
// PostgreSQL store them.
func timestamp(b []byte) (time.Time, error) {
	sec, nsec, ok := msgpack.Timestamp(b)
	if !ok {
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

// These are the bounds of Python's datetime, which lie within PostgreSQL's. The Python programs on the same
// database could not read dates outside them.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// taggedDate decodes {"swhtype": "datetime", "d": ISO 8601}, with texts or bytes.
func taggedDate(value []byte) (time.Time, error) {
	r := msgpack.Reader{Rest: value}
	head, _ := r.Next()
	var tag, iso string
	for range head.Len() {
		key, _ := raw(&r)
		value, _ := raw(&r)
		switch shortText(key) {
		case "swhtype":
			tag = shortText(value)
		case "d":
			iso = shortText(value)
		}
	}
	if head.Len() != 2 || tag != "datetime" {
		return time.Time{}, reject(KindWrongType, "date is a map, but not of a datetime")
	}
	return isoDate(iso)
}

// shortText returns a text or bytes of up to 64 bytes, and "" otherwise. Keys and dates of a tagged date
// are not longer.
func shortText(value []byte) string {
	t := first(value)
	if t.Kind != msgpack.Text && t.Kind != msgpack.Bytes || len(t.Data) > 64 {
		return ""
	}
	return string(t.Data)
}

// isoLayouts are the forms of Python's datetime.isoformat with a zone. Go accepts fractions of a second
// that are not in the layout.
var isoLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z07:00:00", "2006-01-02 15:04:05Z07:00:00",
}

func isoDate(s string) (time.Time, error) {
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
