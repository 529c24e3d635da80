package lanesim

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ReadRuntimes returns runtimes within bounds, or an error with the line. Runtimes survive being written to a file
// and read.
func FuzzReadRuntimes(f *testing.F) {
	for _, text := range []string{"origin,runtime,lister\na,1.5,gitea\nb, 20,\n", "\ufeffruntime\n1\n", "runtime\n\"1\n", "runtime\nNaN\n", "runtime,runtime\n1,x", "runtime\n0x1p-3\n"} {
		f.Add(text)
	}
	about := regexp.MustCompile(`line \d+|^the file `)
	f.Fuzz(func(t *testing.T, text string) {
		seen, err := ReadRuntimes(strings.NewReader(text))
		if err != nil {
			if !about.MatchString(err.Error()) || seen != nil {
				t.Errorf("%q: %v and %q", text, seen, err)
			}
			return
		}
		if len(seen) == 0 || len(seen) > strings.Count(text, "\n") {
			t.Errorf("%q: %d runtimes", text, len(seen))
		}
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		_ = w.Write([]string{"origin", "runtime", "lister"})
		for _, s := range seen {
			if !(s.Seconds >= 0 && s.Seconds <= maxRuntime) {
				t.Errorf("%q: %v", text, s)
			}
			_ = w.Write([]string{s.Origin, strconv.FormatFloat(s.Seconds, 'g', -1, 64), s.Lister})
		}
		w.Flush()
		if strings.Contains(text, "\r\r\n") {
			return // quotes make it another end of line at each reading
		}
		if again, err := ReadRuntimes(&file); err != nil || !slices.Equal(again, seen) {
			t.Errorf("%q: %v became %v, %v", text, seen, again, err)
		}
	})
}
