package journal

import (
	"strings"

	"swh-scheduler/sql/db"
)

// maxDetail bounds the stored detail of a rejected record, in bytes.
const maxDetail = 500

func rejection(from place, why *RejectError) db.RejectedRecord {
	// The detail may quote the record: PostgreSQL refuses a NUL and half a character.
	detail := strings.ReplaceAll(why.Detail, "\x00", "")
	if len(detail) > maxDetail {
		detail = detail[:maxDetail]
	}
	return db.RejectedRecord{
		Topic: from.topic, Partition: from.partition, Offset: from.offset,
		Kind: why.Kind, Detail: strings.ToValidUTF8(detail, ""),
	}
}
