package stmt_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/ledger"
)

// Columns fills arrays from the rows' fields of the same names, at any depth of a row.
func TestColumns(t *testing.T) {
	t.Parallel()
	type inner struct{ Worker string }
	type row struct {
		*model.OriginKey
		Start    inner
		ID       uuid.UUID
		Status   model.RunStatus
		Priority uint8
		Seconds  float64
		At       *time.Time
		Text     ledger.RunMetadata
	}
	type params struct {
		Now       time.Time // no array
		URL       []string
		Worker    []string
		ID        []uuid.UUID
		Status    []string
		Priority  []int16
		Seconds   []float32
		At        []time.Time
		Text      []string
		VisitType []string
	}
	id, at := uuid.New(), time.Unix(1, 0)
	got := stmt.Columns[params]([]row{
		{&model.OriginKey{URL: "u", VisitType: "git"}, inner{"w"}, id, model.RunFailed, 9, 0.5, &at, ledger.RunMetadata{Error: new("e")}},
		{OriginKey: &model.OriginKey{URL: "v"}},
	})
	want := params{
		URL: []string{"u", "v"}, Worker: []string{"w", ""}, ID: []uuid.UUID{id, {}}, Status: []string{"failed", ""},
		Priority: []int16{9, 0}, Seconds: []float32{0.5, 0}, At: []time.Time{at, {}}, Text: []string{`{"error":"e"}`, "{}"}, VisitType: []string{"git", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	type counts struct {
		Name  []string
		Value []int64
	}
	if got := stmt.Columns[counts](stmt.Entries(map[struct{ Name string }]int{{"a"}: 1})); !reflect.DeepEqual(got, counts{[]string{"a"}, []int64{1}}) {
		t.Errorf("of a map: %+v", got)
	}
	if got := stmt.Columns[counts]([]stmt.Entry[struct{ Name string }, int]{}); got.Name == nil { // NULL would be another thing
		t.Errorf("without rows: %#v", got)
	}

	defer func() {
		if said := fmt.Sprint(recover()); said != "[]struct { Other string } has no field Name of stmt_test.counts" {
			t.Errorf("a row without an array's field: %s", said)
		}
	}()
	stmt.Columns[counts]([]struct{ Other string }{{}})
}
