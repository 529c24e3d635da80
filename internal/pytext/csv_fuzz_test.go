package pytext

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// Records that are read, written and read again are equal, and have no more text than the file. Records begin on
// lines of the file.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n\n\"x\"\"y\",\r\n", "\"open", "a\"b\rc", ",", "\"\"", "\"a\"b,c\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // callers refuse it
		}
		records := ReadCSV(text, ',')
		var rows strings.Builder
		held, line := 0, 0
		for _, r := range records {
			for _, field := range r.Fields {
				held += len(field)
			}
			if r.Line <= line || r.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 {
				t.Errorf("%q: a record on line %d after one on %d", text, r.Line, line)
			}
			line = r.Line
			rows.WriteString(CSVRow(r.Fields) + "\n")
		}
		if held > len(text) {
			t.Errorf("%q: %d bytes of fields", text, held)
		}
		again := ReadCSV(rows.String(), ',')
		if len(again) != len(records) {
			t.Fatalf("%q: %v became %v", text, records, again)
		}
		for i := range again {
			if !reflect.DeepEqual(again[i].Fields, records[i].Fields) {
				t.Errorf("%q: %q became %q", text, records[i].Fields, again[i].Fields)
			}
		}
	})
}
