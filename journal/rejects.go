package journal

import (
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/sql"
)

// maxDetail bounds the text kept of a rejected record, in bytes.
const maxDetail = 500

func rejection(r *kgo.Record, why *RejectError) sql.RejectedRecord {
	// The text may quote the record: PostgreSQL takes neither a NUL nor half a
	// character.
	detail := strings.ReplaceAll(why.Detail, "\x00", "")
	if len(detail) > maxDetail {
		detail = detail[:maxDetail]
	}
	return sql.RejectedRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Kind: why.Kind, Detail: strings.ToValidUTF8(detail, ""),
	}
}

// rejectLogEvery is how often rejected records of one kind are logged.
const rejectLogEvery = time.Minute

// A rejectLog logs the first record of each kind, and then once a minute how
// many there were since.
type rejectLog struct {
	log  *slog.Logger
	now  func() time.Time
	last map[string]time.Time
	held map[string]int // records not logged since
}

func newRejectLog(log *slog.Logger) *rejectLog {
	return &rejectLog{log: log, now: time.Now, last: make(map[string]time.Time), held: make(map[string]int)}
}

func (l *rejectLog) note(r sql.RejectedRecord) {
	now := l.now()
	if last, seen := l.last[r.Kind]; seen && now.Sub(last) < rejectLogEvery {
		l.held[r.Kind]++
		return
	}
	l.log.Warn("journal record set aside", "kind", r.Kind, "detail", r.Detail,
		"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "unlogged", l.held[r.Kind])
	l.last[r.Kind], l.held[r.Kind] = now, 0
}
