package pytext

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// python is a Python program that reads and writes lists of CSV files, rows and tables with Python's modules.
const python = `
import csv, io, json, sys
from tabulate import tabulate
q = json.load(sys.stdin)
def row(fields):
    out = io.StringIO()
    csv.writer(out).writerow(fields)
    return [out.getvalue()[:-2], out.getvalue().rstrip()]
def records(text):
    file = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    return [[reader.line_num, r] for reader in [csv.reader(file, delimiter=";")] for r in reader]
json.dump({
    "files": [records(text) for text in q["files"]],
    "rows": [row(fields) for fields in q["rows"]],
    "tables": [tabulate(t[1:], t[0]) for t in q["tables"]],
}, sys.stdout)
`

// CSV files, CSV rows and tables equal those of Python's modules.
func TestSameAsPython(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	text := func(pieces []string, most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	var q struct {
		Files  []string     `json:"files"`
		Rows   [][]string   `json:"rows"`
		Tables [][][]string `json:"tables"`
	}
	for range 2000 {
		q.Files = append(q.Files, text([]string{`"`, `""`, ";", "\n", "\r\n", "\r", "a", "é", " ", "\u2028"}, 12))
		var row []string
		for range 1 + r.IntN(3) {
			row = append(row, text([]string{`"`, ",", "\n", "\r", "a", "é", " ", "\t", "\u00a0", "\x1c", "'"}, 4))
		}
		q.Rows = append(q.Rows, row)
	}
	for range 300 {
		table := [][]string{{"url", "last_visit_status", "last_visit"}}
		for range r.IntN(4) {
			table = append(table, []string{
				"https://" + text([]string{"a", "é", "日", "ﬀ", "e\u0301", " "}, 20), text([]string{"x", "successful"}, 2) + "x", "2024-01-02 03:04:05+00:00",
			})
		}
		q.Tables = append(q.Tables, table)
	}
	question, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Python(t), "-c", python)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(question), t.Output()
	answer, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Files  [][][2]any
		Rows   [][2]string
		Tables []string
	}
	if err := json.Unmarshal(answer, &want); err != nil {
		t.Fatal(err)
	}
	for i, file := range q.Files {
		var got [][]any
		for _, record := range ReadCSV(file, ';') {
			fields := []any{}
			for _, field := range record.Fields {
				fields = append(fields, field)
			}
			got = append(got, fields)
		}
		var records [][]any
		for _, record := range want.Files[i] {
			records = append(records, record[1].([]any))
		}
		if !reflect.DeepEqual(got, records) {
			t.Errorf("%q is read as %q, by Python as %q", file, got, records)
		}
	}
	for i, row := range q.Rows {
		if got := CSVRow(row); got != want.Rows[i][0] {
			t.Errorf("%q is written %q, by Python %q", row, got, want.Rows[i][0])
		}
		if got := RStrip(CSVRow(row)); got != want.Rows[i][1] {
			t.Errorf("%q is stripped %q, by Python %q", row, got, want.Rows[i][1])
		}
	}
	for i, table := range q.Tables {
		if got := Table(table[0], table[1:]); got != want.Tables[i] {
			t.Errorf("%q is drawn\n%s\nby Python\n%s", table, got, want.Tables[i])
		}
	}
}
