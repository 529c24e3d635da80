package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string

	ImportPath string // of what is built
}

// graver matches a line with what no repetition excuses: races, panics, leaked
// goroutines, time-outs, and messages that a test itself calls lost or sent twice. What
// a daemon logs has such words, too.
var graver = regexp.MustCompile(`DATA RACE|^\s*panic: |^fatal error: |test timed out|unexpected goroutines|` + own.String() + `.*\b((?i:lost|twice|doubled))\b`)

// suite prints to out. goTest runs go test with some arguments.
type suite struct {
	out    io.Writer
	goTest func(ctx context.Context, args []string, each func(event)) error
}

// run runs everything, then what has failed and is in quarantine. Why tests failed is
// the last that it prints.
func (s suite) run(ctx context.Context, reasons map[test]string, args []string) (err error) {
	r := newResults(s.out)
	defer func() {
		if err != nil {
			r.explain()
		}
	}()
	err = s.goTest(ctx, args, r.add)
	for t := range reasons {
		if !r.ran[t] {
			return fmt.Errorf(".ci/quarantine: %s has not run", t)
		}
	}
	if err == nil && len(r.broken) == 0 && len(r.failed) == 0 {
		return nil
	}
	for _, t := range r.failed {
		if reasons[t] == "" {
			r.broken = append(r.broken, t.String())
		}
	}
	if len(r.broken) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(r.broken, ", "))
	}
	if len(r.failed) == 0 {
		return err
	}
	for _, t := range r.failed {
		fmt.Fprintf(s.out, "\n=== QUARANTINED, once more: %s (%s)\n", t, reasons[t])
		if err := s.repeat(ctx, t, args); err != nil {
			return fmt.Errorf("%s failed twice: %w", t, err)
		}
	}
	return nil
}

// repeat runs a test alone, with the arguments of the first run and beside a run
// of everything, which it doesn't judge.
func (s suite) repeat(ctx context.Context, t test, args []string) error {
	load, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.goTest(load, args, func(event) {})
	}()
	defer func() { stop(); <-ended }()
	var flags []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		}
	}
	r := newResults(s.out)
	err := s.goTest(ctx, append(flags, "-run=^"+t.name+"$", t.pkg), r.add)
	if err == nil && (!r.ran[t] || len(r.failed)+len(r.broken) > 0) {
		err = errors.New("no pass was seen")
	}
	if err != nil {
		r.explain()
	}
	return err
}

// results is what the events of one `go test` say.
type results struct {
	out    io.Writer
	ran    map[test]bool
	failed []test
	broken []string // packages that failed in a way that no test's repetition excuses

	running map[test]bool
	output  map[string][]event // of the packages that run
	reasons []reason
}

func newResults(out io.Writer) *results {
	return &results{out: out, ran: map[test]bool{}, running: map[test]bool{}, output: map[string][]event{}}
}

func (r *results) add(e event) {
	t := test{e.Package, e.Test}
	top := e.Test != "" && !strings.Contains(e.Test, "/")
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		r.reasons = append(r.reasons, reason{e.ImportPath, e.Output})
	case "output":
		r.output[e.Package] = append(r.output[e.Package], e)
	case "run":
		r.ran[t], r.running[t] = true, true
	case "pass", "skip", "fail":
		delete(r.running, t)
		switch {
		case e.Test == "":
			r.end(e.Package, e.Action == "fail")
		case e.Action != "fail":
			r.forget(t)
		case top:
			r.failed = append(r.failed, t)
		}
	}
}

// forget drops the output of a test that has passed.
func (r *results) forget(t test) {
	kept := r.output[t.pkg][:0]
	for _, e := range r.output[t.pkg] {
		if e.Test != t.name {
			kept = append(kept, e)
		}
	}
	r.output[t.pkg] = kept
}

// end prints what a package that has ended leaves, and sees why it failed.
func (r *results) end(pkg string, failed bool) {
	output := r.output[pkg]
	delete(r.output, pkg)
	grave := ""
	for _, e := range output {
		if failed || strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "?   \t") {
			fmt.Fprint(r.out, e.Output)
		}
		if found := graver.FindStringSubmatch(e.Output); found != nil && grave == "" {
			grave = strings.TrimSpace(cmp.Or(found[1], found[0]))
		}
	}
	if !failed {
		return
	}
	r.reasons = append(r.reasons, reasonsOf(output)...)
	explained := slices.ContainsFunc(r.failed, func(t test) bool { return t.pkg == pkg })
	for t := range r.running {
		explained = explained && t.pkg != pkg
	}
	if grave != "" {
		r.broken = append(r.broken, fmt.Sprintf("%s (%s)", pkg, grave))
	} else if !explained {
		r.broken = append(r.broken, pkg)
	}
}
