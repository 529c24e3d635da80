package journal

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/sql/db"
)

// maxDetail bounds the text kept of a rejected record, in bytes.
const maxDetail = 500

func rejection(r *kgo.Record, why *RejectError) db.RejectedRecord {
	// The text may quote the record: PostgreSQL takes neither a NUL nor half a
	// character.
	detail := strings.ReplaceAll(why.Detail, "\x00", "")
	if len(detail) > maxDetail {
		detail = detail[:maxDetail]
	}
	return db.RejectedRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Kind: why.Kind, Detail: strings.ToValidUTF8(detail, ""),
	}
}
