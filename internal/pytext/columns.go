package pytext

import (
	"strings"
	"unicode/utf8"
)

// Terminal is the terminal of a table. The zero value has no width and no styles.
type Terminal struct {
	Width int                 // in characters; 0: unlimited
	Bold  func(string) string // nil: none
}

// shortestCell is the least number of characters of a shortened cell.
const shortestCell = 12

// Columns aligns lines whose cells are separated by tabs, with two blanks between columns. The first line has the
// heads; a head that ends with ">" aligns its column to the right. The last cell of a line with fewer cells may have
// any length. For a narrow terminal, Columns shortens the middle of the longest cells that are aligned to the left.
// If that is not enough, it formats each line as a list of heads and cells.
func (t Terminal) Columns(lines []string) string {
	rows := make([][]string, len(lines))
	for i, line := range lines {
		rows[i] = strings.Split(line, "\t")
	}
	right, widths := make([]bool, len(rows[0])), make([]int, len(rows[0]))
	for i, head := range rows[0] {
		rows[0][i], right[i] = strings.CutSuffix(head, ">")
	}
	for _, row := range rows {
		for i, cell := range row {
			if i < len(row)-1 || len(row) == len(widths) {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	if !t.fit(rows[0], widths, right) {
		return t.lists(rows)
	}
	var b strings.Builder
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i == len(row)-1 && len(row) < len(widths) {
				line.WriteString(cell)
				break
			}
			cell = shorten(cell, widths[i])
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell = blanks + cell
			} else {
				cell += blanks
			}
			line.WriteString(cell + "  ")
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 {
			text = t.bold(text)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// fit narrows the widest columns that are aligned to the left until all fit, and reports whether they do.
func (t Terminal) fit(heads []string, widths []int, right []bool) bool {
	total := 2 * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for ; t.Width > 0 && total > t.Width; total-- {
		widest := -1
		for i, width := range widths {
			if !right[i] && width > max(shortestCell, utf8.RuneCountInString(heads[i])) && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// lists formats each row as lines of a head and a cell.
func (t Terminal) lists(rows [][]string) string {
	width := 0
	for _, head := range rows[0] {
		width = max(width, utf8.RuneCountInString(head))
	}
	var b strings.Builder
	for n, row := range rows[1:] {
		if n > 0 {
			b.WriteString("\n")
		}
		for i, cell := range row {
			head := rows[0][i]
			b.WriteString(t.bold(head) + strings.Repeat(" ", width-utf8.RuneCountInString(head)+2) + cell + "\n")
		}
	}
	return b.String()
}

func (t Terminal) bold(text string) string {
	if t.Bold == nil {
		return text
	}
	return t.Bold(text)
}

// shorten removes the middle of a text that is longer than most characters.
func shorten(text string, most int) string {
	all := []rune(text)
	if len(all) <= most {
		return text
	}
	head := (most - 1) / 2
	return string(all[:head]) + "…" + string(all[len(all)-(most-1-head):])
}
