package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"swh-scheduler/internal/bench"
)

// measurements are the output of a run of benchmarks.
type measurements struct {
	facts      map[string]string // such as the date
	benchmarks []string          // names without "Benchmark" and side, in order
	sides      map[string][]side // by benchmark, in order
}

// side has the figures of a side of a benchmark, by unit.
type side struct {
	name    string
	figures map[string]float64
}

// figure is the median, minimum and maximum of some runs.
type figure struct{ median, least, greatest float64 }

var (
	factLine = regexp.MustCompile(`^([a-z]+): (.+)$`)
	// The name ends with GOMAXPROCS unless that is 1.
	resultLine = regexp.MustCompile(`^Benchmark(\S+?)(?:/side=(\S+?))?(?:-\d+)?\s+\d+\t(.*)$`)
)

func read(in io.Reader) (*measurements, error) {
	m := &measurements{facts: map[string]string{}, sides: map[string][]side{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fact := factLine.FindStringSubmatch(lines.Text()); fact != nil {
			m.facts[fact[1]] = fact[2]
			continue
		}
		result := resultLine.FindStringSubmatch(lines.Text())
		if result == nil || result[2] == "" {
			continue
		}
		name, s := result[1], side{result[2], map[string]float64{}}
		fields := strings.Fields(result[3])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			s.figures[fields[i+1]] = value
		}
		if _, found := m.sides[name]; !found {
			m.benchmarks = append(m.benchmarks, name)
		}
		m.sides[name] = append(m.sides[name], s)
	}
	return m, lines.Err()
}

func (s side) figure(unit string) (f figure, measured bool) {
	f.median, measured = s.figures[unit]
	f.least, f.greatest = f.median, f.median
	if least, found := s.figures[unit+"-min"]; found {
		f.least, f.greatest = least, s.figures[unit+"-max"]
	}
	return f, measured
}

// side returns a side of a benchmark; an empty one if there is none.
func (m *measurements) side(benchmark, name string) side {
	for _, s := range m.sides[benchmark] {
		if s.name == name {
			return s
		}
	}
	return side{}
}

// units returns the units of a side's figures, sorted.
func (s side) units() (units []string) {
	for unit := range s.figures {
		if !strings.HasSuffix(unit, "-min") && !strings.HasSuffix(unit, "-max") && unit != "runs" {
			units = append(units, unit)
		}
	}
	slices.Sort(units)
	return units
}

// comparison has a figure of our scheduler, of the Python scheduler and of limits.
type comparison struct {
	benchmark, unit string
	ours, peer      figure
	limits          map[string]figure
}

func (m *measurements) comparisons() (all []comparison) {
	for _, name := range m.benchmarks {
		ours, peer := m.side(name, bench.Ours), m.side(name, bench.Peer)
		for _, unit := range ours.units() {
			c := comparison{benchmark: name, unit: unit, limits: map[string]figure{}}
			var found bool
			if c.peer, found = peer.figure(unit); !found {
				continue
			}
			c.ours, _ = ours.figure(unit)
			for _, s := range m.sides[name] {
				if limit, isLimit := strings.CutPrefix(s.name, bench.Limit("")); isLimit {
					if f, found := s.figure(unit); found {
						c.limits[limit] = f
					}
				}
			}
			all = append(all, c)
		}
	}
	return all
}

// road has a figure of our daemon with the database and through an RPC server, and of the Python daemon through its
// own.
type road struct {
	benchmark, unit        string
	database, byDoor, peer figure
}

// roads returns the figures that were also measured through RPC servers.
func (m *measurements) roads() (all []road) {
	for _, name := range m.benchmarks {
		ours, byDoor, peer := m.side(name, bench.Ours), m.side(name, bench.Door), m.side(name, bench.PeerRemote)
		for _, unit := range byDoor.units() {
			r := road{benchmark: name, unit: unit}
			var withDatabase, ofPeer bool
			r.byDoor, _ = byDoor.figure(unit)
			r.database, withDatabase = ours.figure(unit)
			r.peer, ofPeer = peer.figure(unit)
			if withDatabase && ofPeer {
				all = append(all, r)
			}
		}
	}
	return all
}

// cost has a figure with a feature and without it (base).
type cost struct {
	benchmark, with, unit string
	base, figure          figure
}

// costs returns the costs of our triggers for the Python scheduler, and of features for ours.
func (m *measurements) costs() (all []cost) {
	for _, name := range m.benchmarks {
		for _, s := range m.sides[name] {
			base := m.side(name, bench.Plain)
			if s.name == bench.PeerBeside {
				base = m.side(name, bench.Peer)
			} else if s.name == bench.Plain {
				continue
			}
			for _, unit := range base.units() {
				if f, found := s.figure(unit); found {
					without, _ := base.figure(unit)
					all = append(all, cost{name, s.name, unit, without, f})
				}
			}
		}
	}
	return all
}

// leastRuns is the least number of runs of a side whose figures are published.
const leastRuns = 5

// isWhole returns an error unless the tables may be published.
func (m *measurements) isWhole() error {
	for _, setting := range []string{"fsync", "fullpagewrites"} {
		if m.facts[setting] != "on" {
			return fmt.Errorf("PostgreSQL's %s is %q: not measured as it is run", setting, m.facts[setting])
		}
	}
	for _, t := range titles {
		if !slices.ContainsFunc(m.benchmarks, func(name string) bool { return first(name) == t.benchmark }) {
			return fmt.Errorf("benchmark %s was not run: not the whole table", t.benchmark)
		}
	}
	for name, sides := range m.sides {
		for _, s := range sides {
			if runs, compared := s.figures["runs"]; compared && runs < leastRuns {
				return fmt.Errorf("benchmark %s, side %s: %v runs, want %d or more", name, s.name, runs, leastRuns)
			}
		}
	}
	return nil
}

func first(benchmark string) string {
	name, _, _ := strings.Cut(benchmark, "/")
	return name
}

// ratio returns how many times better the first figure is. Higher is better for rates, lower for other units.
func ratio(unit string, a, b figure) float64 {
	if strings.HasSuffix(unit, "/s") {
		return a.median / b.median
	}
	return b.median / a.median
}
