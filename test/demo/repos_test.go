package main

import (
	"os/exec"
	"strings"
	"testing"
)

func git(r repository, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "--git-dir", r.Path}, args...)...).CombinedOutput()
	return string(out), err
}

// git itself accepts the repositories that should be sound and refuses the
// broken ones, so the demo's outcomes come from git and not from our tricks.
func TestRepositoriesAreWhatTheirKindSays(t *testing.T) {
	t.Parallel()
	repositories, err := makeRepositories(t.TempDir(), minRepositories)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[kind]int{}
	for _, r := range repositories {
		seen[r.Kind]++
		out, err := git(r, "for-each-ref", "--format=%(objecttype) %(refname)")
		if r.Kind == broken {
			if err == nil {
				t.Errorf("git reads the broken %s:\n%s", r.Path, out)
			}
			continue
		}
		if err != nil {
			t.Errorf("git refuses %s %s: %v\n%s", r.Kind, r.Path, err, out)
		}
		if got, want := strings.Contains(out, "commit "+branch), r.Kind != empty; got != want {
			t.Errorf("%s %s has a main branch: %t, want %t", r.Kind, r.Path, got, want)
		}
		if out, err := git(r, "fsck", "--strict"); err != nil {
			t.Errorf("git fsck %s: %v\n%s", r.Path, err, out)
		}
	}
	for _, k := range kinds {
		if seen[k] < 2 {
			t.Errorf("%d repositories of kind %s, want at least 2", seen[k], k)
		}
	}
}

// A commit while the demo runs gives the main branch a new head on the old one.
func TestCommitExtendsTheBranch(t *testing.T) {
	t.Parallel()
	repositories, err := makeRepositories(t.TempDir(), minRepositories)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range repositories {
		if r.Kind != growing {
			continue
		}
		if err := r.commit("more\n", testTime); err != nil {
			t.Fatal(err)
		}
		if out, err := git(r, "rev-list", "--count", branch); err != nil || strings.TrimSpace(out) != "2" {
			t.Errorf("%s has %s commits (%v), want 2", r.Path, out, err)
		}
	}
}
