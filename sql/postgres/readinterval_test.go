package postgres_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/postgres"
)

// Intervals in any syntax have the lengths that psycopg returns to the Python scheduler: a year is 365
// days, not the 360 of PostgreSQL's comparisons.
func TestReadIntervalAsPsycopg(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	texts := []string{
		"1 year", "12 months", "14 months", "-1 year", "1.5 years", "1 year 2 mons 3 days 04:05:06.789", "2 years -1 month",
		"90 days", "1 day 12:30:00", "P1Y2M3DT4H", "1 week", "36 hours", "0",
	}
	words, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), testenv.Python(t), "-c", `
import json, sys, psycopg
cur = psycopg.connect(sys.argv[1]).cursor()
micro = __import__("datetime").timedelta(microseconds=1)
print(json.dumps([cur.execute("select %s::text::interval", [t]).fetchone()[0] // micro for t in json.loads(sys.argv[2])]))`, dsn, string(words)).Output()
	var want []int64
	if err != nil || json.Unmarshal(out, &want) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	store := testenv.OpenLocal(t, dsn)
	for i, text := range texts {
		if got, err := store.ReadInterval(t.Context(), text); err != nil || got.Microseconds() != want[i] {
			t.Errorf("%q: %s, %v; psycopg says %s", text, got, err, time.Duration(want[i])*time.Microsecond)
		}
	}
	if got, err := store.ReadInterval(t.Context(), "1 year"); got != 365*24*time.Hour {
		t.Errorf("a year is %s, %v", got, err)
	}
	for _, text := range []string{"", "soon", "1 fortnight", "99999999999 years"} {
		if got, err := store.ReadInterval(t.Context(), text); !errors.Is(err, postgres.ErrNoInterval) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
