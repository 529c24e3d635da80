package model

import "testing"

func TestRestriction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r        Restriction
		taskType string
		want     bool
	}{
		{Restriction{}, "load-git", true},
		{Restriction{TaskTypes: []string{"load-git", "load-hg"}}, "load-hg", true},
		{Restriction{TaskTypes: []string{"load-git"}}, "load-git-disk", false},
		{Restriction{Patterns: []string{"list", "load-"}}, "load-git", true},
		{Restriction{Patterns: []string{"list"}}, "load-git", false},
		{Restriction{TaskTypes: []string{"load-git"}, Patterns: []string{"list"}}, "load-git", false},
	} {
		if got := c.r.Admits(c.taskType); got != c.want {
			t.Errorf("%s admits %s: %v", c.r, c.taskType, got)
		}
	}
	if got := (Restriction{TaskTypes: []string{"a", "b", "c", "d", "e", "f", "g"}, Patterns: []string{"x"}}).String(); got != "--task-type a --task-type b --task-type c --task-type d --task-type e and 2 more --task-type-pattern x" {
		t.Error(got)
	}
}
