package pytext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// A table aligns numbers to the right, fits its terminal, and becomes lists if it can't.
func TestColumns(t *testing.T) {
	lines := []string{"QUEUE\tLIMIT>\tPROBLEM", "swh.loader.git.tasks.UpdateGitRepository\t1000\t-", "short\t1\tnone", "gone\tno such queue"}
	bold := func(text string) string { return "<" + text + ">" }
	for name, one := range map[string]struct {
		terminal Terminal
		want     string
	}{
		"as wide as it is": {Terminal{}, "" +
			"QUEUE                                     LIMIT  PROBLEM\n" +
			"swh.loader.git.tasks.UpdateGitRepository   1000  -\n" +
			"short                                         1  none\n" +
			"gone                                      no such queue\n"},
		"shortened": {Terminal{Width: 36, Bold: bold}, "" +
			"<QUEUE                 LIMIT  PROBLEM>\n" +
			"swh.loade…Repository   1000  -\n" +
			"short                     1  none\n" +
			"gone                  no such queue\n"},
		"as lists": {Terminal{Width: 24, Bold: bold}, "" +
			"<QUEUE>    swh.loader.git.tasks.UpdateGitRepository\n" +
			"<LIMIT>    1000\n" +
			"<PROBLEM>  -\n\n" +
			"<QUEUE>    short\n" +
			"<LIMIT>    1\n" +
			"<PROBLEM>  none\n\n" +
			"<QUEUE>    gone\n" +
			"<LIMIT>    no such queue\n"},
	} {
		if got := one.terminal.Columns(lines); got != one.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, one.want)
		}
	}
}

// No line of a table with all its cells is wider than the terminal, and no line is lost.
func TestColumnsFit(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		cell := rapid.StringMatching(`[a-zé ]{0,40}`)
		columns := rapid.IntRange(3, 8).Draw(t, "columns") // with fewer, a list could have as many lines as a table
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, columns, columns), 2, 6).Draw(t, "rows")
		var lines []string
		for i, row := range rows {
			if i == 0 {
				for at := range row {
					row[at] = strings.ToUpper(strings.TrimSpace(row[at])) + rapid.SampledFrom([]string{"", ">"}).Draw(t, "alignment")
				}
			}
			lines = append(lines, strings.Join(row, "\t"))
		}
		width := rapid.IntRange(1, 200).Draw(t, "width")
		text := Terminal{Width: width}.Columns(lines)
		got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(got) != len(lines) { // lists
			if want := (len(lines)-1)*(columns+1) - 1; len(got) != want {
				t.Fatalf("%d lines, want %d or %d:\n%s", len(got), len(lines), want, text)
			}
			return
		}
		for _, line := range got {
			if n := utf8.RuneCountInString(line); n > width {
				t.Fatalf("%d characters on a terminal of %d:\n%s", n, width, text)
			}
		}
	})
}
