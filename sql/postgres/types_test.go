package postgres

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Types with our direct decoders have the same values as with pgx's own.
func TestTypesAreReadAsByPgx(t *testing.T) {
	ours, pgx := pgtype.NewMap(), pgtype.NewMap()
	registerTypes(ours)
	id := uuid.MustParse("0123abcd-4567-89ab-cdef-0123456789ab")
	type target struct {
		name string
		new  func() any
	}
	ids := []target{
		{"uuid.UUID", func() any { return &uuid.UUID{1} }},
		{"*uuid.UUID", func() any { return &[]*uuid.UUID{{1}}[0] }},
		{"uuid.NullUUID", func() any { return new(uuid.NullUUID) }},
		{"string", func() any { return new(string) }},
	}
	texts := []target{
		{"json.RawMessage", func() any { return &json.RawMessage{'1'} }},
		{"*json.RawMessage", func() any { return new(*json.RawMessage) }},
		{"[]byte", func() any { return &[]byte{'1'} }},
		{"map", func() any { return new(map[string]any) }},
		{"any", func() any { return new(any) }},
	}
	for _, c := range []struct {
		oid     uint32
		format  int16
		value   string
		targets []target
	}{
		{pgtype.UUIDOID, pgtype.BinaryFormatCode, string(id[:]), ids},
		{pgtype.UUIDOID, pgtype.BinaryFormatCode, "short", ids[:3]},
		{pgtype.UUIDOID, pgtype.TextFormatCode, id.String(), ids},
		{pgtype.JSONBOID, pgtype.TextFormatCode, `{"a": [1.50, "é\u0000", null]}`, texts},
		{pgtype.JSONBOID, pgtype.TextFormatCode, "null", texts},
		{pgtype.JSONBOID, pgtype.BinaryFormatCode, "\x01{}", texts},
		{pgtype.JSONOID, pgtype.TextFormatCode, `{"b": 1,  "a": [1.50, "é\u0000", null]}`, texts},
		{pgtype.JSONOID, pgtype.BinaryFormatCode, "null", texts},
	} {
		for _, target := range c.targets {
			for _, value := range [][]byte{[]byte(c.value), nil} {
				got, want := target.new(), target.new()
				err, wantErr := ours.Scan(c.oid, c.format, value, got), pgx.Scan(c.oid, c.format, value, want)
				if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(got, want) {
					t.Errorf("%q into %s: %v, %v, want %v, %v", value, target.name, got, err, want, wantErr)
				}
				clear(value) // the connection's buffer, which is reused
				if err == nil && !cmp.Equal(got, want) {
					t.Errorf("%s changes with the connection's buffer", target.name)
				}
			}
		}
	}
}

// Types with our direct encoders are encoded as by pgx.
func TestTypesAreWrittenAsByPgx(t *testing.T) {
	ours, pgx := pgtype.NewMap(), pgtype.NewMap()
	registerTypes(ours)
	id := uuid.MustParse("0123abcd-4567-89ab-cdef-0123456789ab")
	pgx.RegisterDefaultPgType([]uuid.UUID{}, "_uuid")
	for oid, values := range map[uint32][]any{
		pgtype.UUIDOID:      {id, &id, (*uuid.UUID)(nil), uuid.NullUUID{UUID: id, Valid: true}, uuid.NullUUID{}, id.String(), "no id"},
		pgtype.UUIDArrayOID: {[]uuid.UUID{id, {}}, []uuid.UUID{}, []uuid.UUID(nil), []*uuid.UUID{&id, nil}, []uuid.NullUUID{{UUID: id, Valid: true}, {}}, []string{id.String()}},
	} {
		for _, value := range values {
			for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
				got, err := ours.Encode(oid, format, value, nil)
				want, wantErr := pgx.Encode(oid, format, value, nil)
				if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(got, want) {
					t.Errorf("%T %v, format %d: %q, %v, want %q, %v", value, value, format, got, err, want, wantErr)
				}
			}
		}
	}
	ids := make([]uuid.UUID, 100)
	buffer := make([]byte, 0, 10_000)
	if allocated := testing.AllocsPerRun(10, func() { _, _ = ours.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, buffer) }); allocated > 150 {
		t.Errorf("writing 100 ids takes %.0f allocations", allocated)
	}
}

// BenchmarkTypes reads a lister and arguments, as each row of origins has them.
func BenchmarkTypes(b *testing.B) {
	id, text := uuid.New(), []byte(`{"url": "https://forge.example.org/user/repository"}`)
	for name, register := range map[string]func(*pgtype.Map){"pgx": func(*pgtype.Map) {}, "ours": registerTypes} {
		b.Run(name, func(b *testing.B) {
			types := pgtype.NewMap()
			register(types)
			var lister uuid.UUID
			var arguments json.RawMessage
			ofID := types.PlanScan(pgtype.UUIDOID, pgtype.BinaryFormatCode, &lister)
			ofText := types.PlanScan(pgtype.JSONBOID, pgtype.TextFormatCode, &arguments)
			b.ReportAllocs()
			for b.Loop() {
				if ofID.Scan(id[:], &lister) != nil || ofText.Scan(text, &arguments) != nil {
					b.Fatal("not read")
				}
			}
		})
	}
}
