package journal

import (
	"strings"

	"swh-scheduler/sql/db"
)

// maxDetail bounds the text kept of a rejected record, in bytes.
const maxDetail = 500

func rejection(from place, why *RejectError) db.RejectedRecord {
	// The text may quote the record: PostgreSQL takes neither a NUL nor half a
	// character.
	detail := strings.ReplaceAll(why.Detail, "\x00", "")
	if len(detail) > maxDetail {
		detail = detail[:maxDetail]
	}
	return db.RejectedRecord{
		Topic: from.topic, Partition: from.partition, Offset: from.offset,
		Kind: why.Kind, Detail: strings.ToValidUTF8(detail, ""),
	}
}
