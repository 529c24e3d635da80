package postgres

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes has pgx read every timestamptz in UTC instead of the local zone, read and write
// uuid, and read json and jsonb, without the detours that it takes for types that are not its own: a UUID's
// text, and a parser for JSON that is kept as it is.
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
	// For the modes without prepared statements, where the server doesn't tell
	// a parameter's type.
	types.RegisterDefaultPgType([]uuid.UUID{}, "_uuid")
}

// uuidCodec reads a uuid.UUID from its bytes, and writes them.
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

// Scan leaves the target as it is if the value is null, as uuid.UUID itself does.
func (scanUUID) Scan(value []byte, target any) error {
	if value == nil {
		return nil
	}
	return target.(*uuid.UUID).UnmarshalBinary(value)
}

// unmarshalJSON reads what PostgreSQL wrote, which it has checked.
func unmarshalJSON(value []byte, target any) error {
	if raw, ok := target.(*json.RawMessage); ok {
		*raw = slices.Clone(value)
		return nil
	}
	return json.Unmarshal(value, target)
}
