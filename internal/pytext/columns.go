package pytext

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Columns aligns lines whose cells tabs separate, two blanks apart.
func Columns(lines []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	w.Flush()
	return b.String()
}
