package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"swh-scheduler/internal/testenv/swh"
)

// kind is a kind of origin.
type kind string

const (
	plain     kind = "plain"
	fork      kind = "fork"
	growing   kind = "growing"   // gets a new commit, or release, after its first visit
	slow      kind = "slow"      // takes longer than the express lane's time limit
	empty     kind = "empty"     // has no commit, so that its lister reports no last change
	broken    kind = "broken"    // can't be cloned
	vanishing kind = "vanishing" // is listed, then deleted before its visit
	wanted    kind = "wanted"    // isn't listed before the request of save code now
)

// kinds is the pattern that the repositories of a forge repeat.
var kinds = []kind{growing, plain, fork, broken, empty, slow, plain, vanishing, plain, plain, growing, plain, fork, plain, plain}

// minRepositories is enough for the large forge to have work when the small one has none.
const minRepositories = 32

// The forges, which are also the names of their instances, and the server of archives.
const (
	large    = "large"
	small    = "small"
	packages = "archives"
)

// origin is an origin that the demo has created.
type origin struct {
	URL   string
	Type  string // of its visits
	Forge string
	Name  string
	Kind  kind

	Status, Tip string // expected for its last visit (see [swh.Visit])
}

// world is what the archive visits: two forges and a server of archives.
type world struct {
	*program
	forges   map[string]*swh.Forge
	packages *swh.Packages
	origins  []origin
}

// distance returns the delay of a clone, as if the forge were far away. The delay of slow repositories exceeds the
// express lane's time limit.
func distance(name string) time.Duration {
	if strings.HasPrefix(name, string(slow)) {
		return (expressLimit + 3) * time.Second
	}
	return 300 * time.Millisecond
}

// openWorld creates and serves the repositories, three quarters of them in the large forge, and the packages.
func openWorld(p *program, dir string, repositories, archives int) *world {
	w := &world{program: p, forges: map[string]*swh.Forge{}}
	for name, n := range map[string]int{large: repositories - repositories/4, small: repositories / 4} {
		home := filepath.Join(dir, name)
		w.must(os.MkdirAll(home, 0o755))
		forge, err := swh.StartForge(home, distance)
		w.must(err)
		w.Cleanup(forge.Close)
		w.forges[name] = forge
		for i := range n {
			k := kinds[i%len(kinds)]
			w.addRepository(name, fmt.Sprintf("%s-%02d.git", k, i), k, i)
		}
	}
	home := filepath.Join(dir, packages)
	w.must(os.MkdirAll(home, 0o755))
	var err error
	w.packages, err = swh.StartPackages(home)
	w.must(err)
	w.Cleanup(w.packages.Close)
	for i := range archives {
		o := origin{Type: "tar", Forge: packages, Name: fmt.Sprintf("package%d", i), Kind: plain}
		if i == 0 {
			o.Kind = growing
		}
		o.URL = w.packages.Origin(o.Name)
		w.origins = append(w.origins, o)
		w.must(w.packages.Release(o.Name, "1.0", time.Now().AddDate(0, 0, -30)))
	}
	return w
}

// addRepository creates a repository. The oldest are visited first. Growing ones are the oldest, then come those
// whose visits faults must not disturb. If a connection is cut while a visit fails, the events of its worker may be
// lost, and the scheduler waits ten minutes before it counts the failure.
func (w *world) addRepository(forge, name string, k kind, i int) {
	f := w.forges[forge]
	w.origins = append(w.origins, origin{URL: f.Origin(name), Type: "git", Forge: forge, Name: name, Kind: k})
	years := map[kind]int{growing: 6, slow: 5, broken: 4}[k]
	when := time.Now().AddDate(-years, 0, -10-i%20)
	var err error
	switch k {
	case empty:
		err = f.Create(name)
	case fork:
		err = cmp.Or(f.Fork(name, "plain-01.git"), f.Commit(name, "a fork", when))
	case broken:
		err = cmp.Or(f.Commit(name, forge+name, when), f.Break(name))
	default:
		err = f.Commit(name, forge+name, when)
	}
	w.must(err)
}

// of returns the origins of a kind.
func (w *world) of(k kind) (found []origin) {
	for _, o := range w.origins {
		if o.Kind == k {
			found = append(found, o)
		}
	}
	return found
}

// vanish deletes the vanishing repositories.
func (w *world) vanish() {
	for _, o := range w.of(vanishing) {
		w.must(w.forges[o.Forge].Remove(o.Name))
	}
}

// grow adds a commit, or a release, to each growing origin.
func (w *world) grow() {
	for _, o := range w.of(growing) {
		if f := w.forges[o.Forge]; f != nil {
			w.must(f.Commit(o.Name, "more", time.Now()))
		} else {
			w.must(w.packages.Release(o.Name, "2.0", time.Now()))
		}
	}
}

// inTheEnd returns the origins with the expected results of their last visits.
func (w *world) inTheEnd() (origins []origin) {
	for _, o := range w.origins {
		o.Status = "full"
		switch {
		case o.Kind == broken:
			o.Status = "failed"
		case o.Kind == vanishing:
			o.Status = "not_found"
		case o.Kind == empty:
		case o.Type == "git":
			var err error
			o.Tip, err = w.forges[o.Forge].Tip(o.Name)
			w.must(err)
		case o.Kind == growing:
			o.Tip = "2.0"
		default:
			o.Tip = "1.0"
		}
		origins = append(origins, o)
	}
	return origins
}
