package check

import (
	"fmt"
	"testing"
)

// Mistake is a change of one rule that a model must detect.
type Mistake[S comparable] struct {
	Name   string
	Model  Model[S]
	Broken string // name of the property that it violates
	Steps  int    // of the shortest trace to the violation
}

// Holds explores a model completely, and fails unless all properties hold.
func Holds[S comparable](t *testing.T, name string, m Model[S]) {
	t.Run(name, func(t *testing.T) {
		r := m.Explore()
		t.Log(r)
		if r.Broken != "" || r.Full {
			t.Errorf("%s: %s", name, r)
		}
	})
}

// Distinguishes explores the model of each mistake, which must violate the stated property in the stated number of
// steps. It logs a row of a table for each, and the trace.
func Distinguishes[S comparable](t *testing.T, mistakes []Mistake[S]) {
	for _, m := range mistakes {
		t.Run(m.Name, func(t *testing.T) {
			r := m.Model.Explore()
			t.Log(r)
			fmt.Fprintf(t.Output(), "| %s | %s | %d |\n", m.Name, r.Broken, len(r.Trace))
			if r.Broken != m.Broken || len(r.Trace) != m.Steps {
				t.Errorf("%s broke %q in %d steps; it should break %q in %d", m.Name, r.Broken, len(r.Trace), m.Broken, m.Steps)
			}
		})
	}
}
