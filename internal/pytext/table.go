package pytext

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table equals tabulate's table in the format "simple", without the last end of line. Wide characters count as two
// columns.
func Table(headers []string, rows [][]string) string {
	widths := make([]int, len(headers))
	for i, header := range headers {
		const padding = 2
		widths[i] = displayWidth.StringWidth(header) + padding
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], displayWidth.StringWidth(strings.TrimSpace(cell)))
		}
	}
	var lines []string
	add := func(cells []string) {
		var b strings.Builder
		for i, cell := range cells {
			cell = strings.TrimSpace(cell)
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-displayWidth.StringWidth(cell)+2))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	rules := make([]string, len(headers))
	for i, width := range widths {
		rules[i] = strings.Repeat("-", width)
	}
	add(headers)
	add(rules)
	for _, row := range rows {
		add(row)
	}
	return strings.Join(lines, "\n")
}

// displayWidth doesn't depend on the locale, like Python's wcwidth.
var displayWidth = &runewidth.Condition{}
