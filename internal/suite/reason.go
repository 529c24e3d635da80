package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// own matches the first line of what a test says by Error, Fatal or Log. Further lines
// of it are indented by more.
var (
	own     = regexp.MustCompile(`^ +[\w.-]+\.go:\d+: `)
	further = regexp.MustCompile(`^ {8}`)
)

// reason is what the test function or package by says of its failure in one call, of
// one line or several.
type reason struct{ by, text string }

// reasonsOf returns what the tests of a package that has failed say themselves, and
// what is grave. The logs of daemons are neither, unless a test quotes them.
func reasonsOf(output []event) (all []reason) {
	open := false // the last one may go on
	for _, e := range output {
		top, _, _ := strings.Cut(e.Test, "/")
		by := strings.TrimSuffix(e.Package+"."+top, ".")
		switch {
		case own.MatchString(e.Output), graver.MatchString(e.Output):
			all = append(all, reason{by, e.Output})
			open = own.MatchString(e.Output)
		case open && all[len(all)-1].by == by && further.MatchString(e.Output):
			all[len(all)-1].text += e.Output
		default:
			open = false
		}
	}
	return all
}

// explain prints briefly why tests failed, and what couldn't be built.
func (r *results) explain() {
	slices.SortStableFunc(r.reasons, func(a, b reason) int { return cmp.Compare(a.by, b.by) })
	for left := r.reasons; len(left) > 0; {
		n := slices.IndexFunc(left, func(other reason) bool { return other.by != left[0].by })
		if n < 0 {
			n = len(left)
		}
		fmt.Fprintf(r.out, "\n=== FAILED: %s\n%s", left[0].by, abridge(left[:n]))
		left = left[n:]
	}
}

// mostLines bounds what explain prints of each test: of the log of a CI run that has
// failed, little more may be kept.
const mostLines = 30

// abridge returns the first lines of each reason, of all equally many, so that they are
// mostLines at most.
func abridge(reasons []reason) string {
	reasons = reasons[:min(mostLines, len(reasons))]
	for each := mostLines; ; each-- {
		var lines []string
		for _, r := range reasons {
			all := slices.Collect(strings.Lines(r.text))
			lines = append(lines, all[:min(each, len(all))]...)
		}
		if len(lines) <= mostLines {
			return strings.Join(lines, "")
		}
	}
}
