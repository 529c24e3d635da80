package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/archive"
)

// kind says what is particular about an origin.
type kind string

const (
	plain     kind = "plain"
	fork      kind = "fork"
	growing   kind = "growing"   // gets a new commit, or release, after its first visit
	slow      kind = "slow"      // takes longer than the express lane lets it
	empty     kind = "empty"     // has no commit yet, and its lister doesn't say when it changed
	broken    kind = "broken"    // can't be cloned
	vanishing kind = "vanishing" // is listed, then gone before its visit
	wanted    kind = "wanted"    // isn't listed when it is to be saved now
)

// kinds is the pattern that the repositories of a forge repeat.
var kinds = []kind{growing, plain, fork, broken, empty, slow, plain, vanishing, plain, plain, growing, plain, fork, plain, plain}

// minRepositories are so many that the large forge has work left when the small one has none.
const minRepositories = 32

// The forges, which are also the names of their instances, and the server of archives.
const (
	large    = "large"
	small    = "small"
	packages = "archives"
)

// origin is what the demo has made to be visited.
type origin struct {
	URL   string
	Type  string // of its visits
	Forge string
	Name  string
	Kind  kind
}

// world is what the archive visits: two forges and a server of archives.
type world struct {
	forges   map[string]*archive.Forge
	packages *archive.Packages
	origins  []origin
}

// distance is how long a clone waits, as if the forge were far away; one of a slow repository
// longer than the express lane's limit.
func distance(name string) time.Duration {
	if strings.HasPrefix(name, string(slow)) {
		return (expressLimit + 3) * time.Second
	}
	return 300 * time.Millisecond
}

// openWorld makes the repositories, three quarters of which the large forge has, and the
// packages, and serves them.
func openWorld(dir string, repositories, archives int) (_ *world, err error) {
	w := &world{forges: map[string]*archive.Forge{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for name, n := range map[string]int{large: repositories - repositories/4, small: repositories / 4} {
		home := filepath.Join(dir, name)
		if err := os.MkdirAll(home, 0o755); err != nil {
			return nil, err
		}
		if w.forges[name], err = archive.StartForge(home, distance); err != nil {
			return nil, err
		}
		for i := range n {
			if err := w.addRepository(name, fmt.Sprintf("%s-%02d.git", kinds[i%len(kinds)], i), kinds[i%len(kinds)], i); err != nil {
				return nil, err
			}
		}
	}
	home := filepath.Join(dir, packages)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if w.packages, err = archive.StartPackages(home); err != nil {
		return nil, err
	}
	for i := range archives {
		o := origin{Type: "tar", Forge: packages, Name: fmt.Sprintf("package%d", i), Kind: plain}
		if i == 0 {
			o.Kind = growing
		}
		o.URL = w.packages.Origin(o.Name)
		w.origins = append(w.origins, o)
		if err := w.packages.Release(o.Name, "1.0", time.Now().AddDate(0, 0, -30)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) close() {
	for _, f := range w.forges {
		f.Close()
	}
	if w.packages != nil {
		w.packages.Close()
	}
}

// addRepository makes a repository. The oldest are visited first, so growing ones are older
// than the others, and next those that faults must not meet: while a visit fails, the events of
// its worker may be lost with a connection, and then the scheduler waits for ten minutes until it
// believes the failure.
func (w *world) addRepository(forge, name string, k kind, i int) error {
	f := w.forges[forge]
	w.origins = append(w.origins, origin{URL: f.Origin(name), Type: "git", Forge: forge, Name: name, Kind: k})
	years := map[kind]int{growing: 6, slow: 5, broken: 4}[k]
	when := time.Now().AddDate(-years, 0, -10-i%20)
	switch k {
	case empty:
		return f.Create(name)
	case fork:
		return cmp.Or(f.Fork(name, "plain-01.git"), f.Commit(name, "a fork", when))
	case broken:
		return cmp.Or(f.Commit(name, forge+name, when), f.Break(name))
	default:
		return f.Commit(name, forge+name, when)
	}
}

// of returns the origins of a kind.
func (w *world) of(k kind) []origin {
	return slices.DeleteFunc(slices.Clone(w.origins), func(o origin) bool { return o.Kind != k })
}

// vanish deletes the vanishing repositories.
func (w *world) vanish() error {
	for _, o := range w.of(vanishing) {
		if err := w.forges[o.Forge].Remove(o.Name); err != nil {
			return err
		}
	}
	return nil
}

// grow adds a commit, or a release, to each growing origin.
func (w *world) grow() error {
	for _, o := range w.of(growing) {
		var err error
		if f := w.forges[o.Forge]; f != nil {
			err = f.Commit(o.Name, "more", time.Now())
		} else {
			err = w.packages.Release(o.Name, "2.0", time.Now())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tip returns what the storage has of an origin in the end (see [archive.Visit]), and the
// status of its visit.
func (w *world) tip(o origin) (tip, status string, err error) {
	switch {
	case o.Kind == broken:
		return "", "failed", nil
	case o.Kind == vanishing:
		return "", "not_found", nil
	case o.Kind == empty:
		return "", "full", nil
	case o.Type == "git":
		tip, err = w.forges[o.Forge].Tip(o.Name)
		return tip, "full", err
	case o.Kind == growing:
		return "2.0", "full", nil
	default:
		return "1.0", "full", nil
	}
}
