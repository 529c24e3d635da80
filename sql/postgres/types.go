package postgres

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes makes pgx decode every timestamptz in UTC instead of the local zone. It decodes and encodes
// uuid, json and jsonb directly. For types that are not its own, pgx would go by a UUID's text, and parse
// JSON that stays as it is.
func registerTypes(types *pgtype.Map) {
	utc := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	}
	types.RegisterType(utc)
	types.RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: utc},
	})
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	types.RegisterType(id)
	types.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
	types.RegisterType(&pgtype.Type{Name: "json", OID: pgtype.JSONOID, Codec: &pgtype.JSONCodec{Marshal: json.Marshal, Unmarshal: unmarshalJSON}})
	types.RegisterType(&pgtype.Type{Name: "jsonb", OID: pgtype.JSONBOID, Codec: &pgtype.JSONBCodec{Marshal: json.Marshal, Unmarshal: unmarshalJSON}})
	// These are for the modes without prepared statements, in which the server doesn't report parameter
	// types.
	types.RegisterDefaultPgType([]uuid.UUID{}, "_uuid")
}

// uuidCodec decodes and encodes a uuid.UUID as bytes.
type uuidCodec struct{ pgtype.UUIDCodec }

func (c uuidCodec) PlanEncode(types *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return encodeUUID{}
	}
	return c.UUIDCodec.PlanEncode(types, oid, format, value)
}

type encodeUUID struct{}

func (encodeUUID) Encode(value any, buffer []byte) ([]byte, error) {
	id := value.(uuid.UUID)
	return append(buffer, id[:]...), nil
}

func (c uuidCodec) PlanScan(types *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return scanUUID{}
	}
	return c.UUIDCodec.PlanScan(types, oid, format, target)
}

type scanUUID struct{}

// Scan doesn't change the target for null, like uuid.UUID.
func (scanUUID) Scan(value []byte, target any) error {
	if value == nil {
		return nil
	}
	return target.(*uuid.UUID).UnmarshalBinary(value)
}

// unmarshalJSON decodes JSON from PostgreSQL, which has validated it.
func unmarshalJSON(value []byte, target any) error {
	if raw, ok := target.(*json.RawMessage); ok {
		*raw = slices.Clone(value)
		return nil
	}
	return json.Unmarshal(value, target)
}
