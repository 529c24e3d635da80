package page

import (
	"strings"
	"testing"
)

// Each line of the grid is horizontal, across the whole chart, and has its value on its left.
func TestGrid(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	LineChart("t", "x", []Line{{"l", []Point{{0, 0}, {10, 5}}}}).write(&b)
	for _, want := range []string{
		`<line class="grid" x1="80.0" y1="255.0" x2="880.0" y2="255.0"/><text x="80.0" y="255.0" dx="-8" dy="4" text-anchor="end">0</text>`,
		`<line class="grid" x1="80.0" y1="10.0" x2="880.0" y2="10.0"/><text x="80.0" y="10.0" dx="-8" dy="4" text-anchor="end">5</text>`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}
