// Package check explores a model: all states that its steps reach, breadth first.
//
// A model is a plain struct, the state, with a function that takes each step that is possible in it. [Model.Explore]
// checks the properties of each state once, and returns the shortest trace to a state that violates one. Steps are of
// two kinds: steps that the program takes sooner or later ([Steps.To]), and faults, which may happen or not
// ([Steps.Fault]).
//
// A state is stored as a hash of 64 bits of its canonical form, so that symmetric states count once. Of n states one
// is missed with a probability below n²/2⁶⁵: of ten million, three in a million.
package check

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"
)

// Property is a property of states.
type Property[S any] struct {
	Name  string
	Holds func(S) bool
}

// Model is a model to explore.
type Model[S comparable] struct {
	Initial S
	Next    func(s S, to *Steps[S]) // takes each step that is possible in a state
	Same    func(S) S               // returns the canonical one of symmetric states; nil: all differ

	Always     []Property[S] // hold in every state
	Eventually []Property[S] // from every state, faults aside, a state in which it holds can be reached

	Most int          // bound of states; 0: ten million
	Keep func(S) bool // states whose steps are taken; nil: all
}

// Steps takes the steps from a state.
type Steps[S comparable] struct {
	each func(next S, fault bool)
	name func(S, string) // not nil while a trace is printed
}

// To takes a step that the program takes sooner or later. The name is a format for the numbers in who.
func (s *Steps[S]) To(next S, name string, who ...int) { s.take(next, false, name, who) }

// Fault takes a step that may happen or not.
func (s *Steps[S]) Fault(next S, name string, who ...int) { s.take(next, true, name, who) }

func (s *Steps[S]) take(next S, fault bool, name string, who []int) {
	if s.name == nil {
		s.each(next, fault)
		return
	}
	numbers := make([]any, len(who))
	for i, n := range who {
		numbers[i] = n
	}
	s.name(next, fmt.Sprintf(name, numbers...))
}

// Step is a step from a state.
type Step[S comparable] struct {
	Name string
	Next S
}

// From returns the steps that are possible in a state.
func (m Model[S]) From(s S) (steps []Step[S]) {
	m.Next(s, &Steps[S]{name: func(next S, name string) { steps = append(steps, Step[S]{name, next}) }})
	return steps
}

// Result is the result of an exploration.
type Result struct {
	States, Steps int
	Depth         int // steps to the farthest state
	Took          time.Duration
	Full          bool   // the bound of states was reached, and there are more
	Broken        string // name of the violated property; "" if all hold
	Trace         []string
}

func (r Result) String() string {
	text := fmt.Sprintf("%d states, %d steps, depth %d, %s", r.States, r.Steps, r.Depth, r.Took.Round(10*time.Millisecond))
	if r.Full {
		text += ", and more beyond the bound"
	}
	if r.Broken != "" {
		text += fmt.Sprintf("\nbroken: %s\n  %s", r.Broken, strings.Join(r.Trace, "\n  "))
	}
	return text
}

const tenMillion = 10_000_000

var seed = maphash.MakeSeed()

// exploration is an exploration in progress. Its states are the numbers of their discovery.
type exploration[S comparable] struct {
	Model[S]
	hashes  []uint64
	parents []uint32 // of each state
	table   []uint32 // numbers plus one, by hash
	edges   []uint32 // the states to which each leads without a fault
	firsts  []int    // of each state, the first of its edges
	holds   [][]bool // by eventual property and state
	result  Result
}

// Explore explores the model until a property is violated, all states are found, or the bound of states is reached.
func (m Model[S]) Explore() Result {
	began := time.Now()
	if m.Most == 0 {
		m.Most = tenMillion
	}
	e := &exploration[S]{Model: m, table: make([]uint32, 1<<12), holds: make([][]bool, len(m.Eventually))}
	e.run()
	e.result.States, e.result.Took = len(e.hashes), time.Since(began)
	return e.result
}

func (e *exploration[S]) run() {
	first := e.same(e.Initial)
	e.number(first, 0)
	if !e.checkState(first, 0) {
		return
	}
	level := []S{first}
	from := 0 // number of the first state of the level
	for len(level) > 0 {
		var next []S
		for i, s := range level {
			number, ok := from+i, true
			e.firsts = append(e.firsts, len(e.edges))
			if e.Keep != nil && !e.Keep(s) {
				continue
			}
			e.Next(s, &Steps[S]{each: func(to S, fault bool) {
				e.result.Steps++
				if e.result.Full || !ok {
					return
				}
				to = e.same(to)
				found, known := e.number(to, number)
				if !fault && len(e.Eventually) > 0 && found != number {
					e.edges = append(e.edges, uint32(found))
				}
				if known {
					return
				}
				next = append(next, to)
				ok = e.checkState(to, found)
				e.result.Full = len(e.hashes) >= e.Most
			}})
			if !ok || e.result.Full {
				return
			}
		}
		from += len(level)
		if level = next; len(level) > 0 {
			e.result.Depth++
		}
	}
	e.firsts = append(e.firsts, len(e.edges))
	e.checkEventual()
}

func (e *exploration[S]) same(s S) S {
	if e.Same == nil {
		return s
	}
	return e.Same(s)
}

// number returns the number of a state, a new one if the state is new.
func (e *exploration[S]) number(s S, parent int) (number int, known bool) {
	if 2*len(e.hashes) >= len(e.table) {
		e.grow()
	}
	hash := maphash.Comparable(seed, s)
	at := e.slot(hash)
	if e.table[at] != 0 {
		return int(e.table[at] - 1), true
	}
	e.hashes, e.parents = append(e.hashes, hash), append(e.parents, uint32(parent))
	e.table[at] = uint32(len(e.hashes))
	return len(e.hashes) - 1, false
}

// slot returns the place of a hash in the table, or its empty place.
func (e *exploration[S]) slot(hash uint64) uint64 {
	mask := uint64(len(e.table) - 1)
	at := hash & mask
	for e.table[at] != 0 && e.hashes[e.table[at]-1] != hash {
		at = (at + 1) & mask
	}
	return at
}

func (e *exploration[S]) grow() {
	e.table = make([]uint32, 2*len(e.table))
	for i, hash := range e.hashes {
		e.table[e.slot(hash)] = uint32(i + 1)
	}
}

// checkState checks a new state, and reports whether all properties hold.
func (e *exploration[S]) checkState(s S, number int) bool {
	for _, p := range e.Always {
		if !p.Holds(s) {
			e.result.Broken, e.result.Trace = p.Name, e.trace(number)
			return false
		}
	}
	for i, p := range e.Eventually {
		e.holds[i] = append(e.holds[i], p.Holds(s))
	}
	return true
}

// checkEventual checks the eventual properties. It walks back from the states in which one holds to their predecessors.
func (e *exploration[S]) checkEventual() {
	if len(e.Eventually) == 0 {
		return
	}
	states := len(e.hashes)
	starts := make([]int, states+1) // by state, the first of its predecessors
	for _, to := range e.edges {
		starts[to+1]++
	}
	for i := range states {
		starts[i+1] += starts[i]
	}
	backs, filled := make([]uint32, len(e.edges)), make([]int, states)
	for from := range states {
		for _, to := range e.edges[e.firsts[from]:e.firsts[from+1]] {
			backs[starts[to]+filled[to]] = uint32(from)
			filled[to]++
		}
	}
	for i, p := range e.Eventually {
		reach := e.holds[i]
		var todo []uint32
		for s, holds := range reach {
			if holds {
				todo = append(todo, uint32(s))
			}
		}
		for len(todo) > 0 {
			s := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, from := range backs[starts[s]:starts[s+1]] {
				if !reach[from] {
					reach[from] = true
					todo = append(todo, from)
				}
			}
		}
		for s, holds := range reach {
			if !holds {
				e.result.Broken, e.result.Trace = p.Name, e.trace(s)
				return
			}
		}
	}
}

// trace returns the steps to a state. It takes them again from the initial state, without canonical forms, so that
// all keep their numbers.
func (e *exploration[S]) trace(number int) (steps []string) {
	var path []int
	for ; number > 0; number = int(e.parents[number]) {
		path = append(path, number)
	}
	s := e.Initial
	for i := len(path) - 1; i >= 0; i-- {
		var next S
		found := false
		e.Next(s, &Steps[S]{name: func(to S, name string) {
			if !found && maphash.Comparable(seed, e.same(to)) == e.hashes[path[i]] {
				next, found, steps = to, true, append(steps, name)
			}
		}})
		if !found {
			return append(steps, "(symmetric states differ in their steps: a mistake of Model.Same)")
		}
		s = next
	}
	return steps
}
