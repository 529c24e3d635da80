package model

import "testing"

// TypeOf finds the task type and the prefix of a key that KeyOf returned.
func TestKeysOfQueues(t *testing.T) {
	git, large := TaskType{Type: "load-git", BackendName: "swh.git"}, TaskType{Type: "large:load-git", BackendName: "swh.large"}
	for _, tc := range []struct {
		queue       string
		tt          TaskType
		key, prefix string // "" for none
	}{
		{"swh.git", git, "load-git", ""},
		{"new:swh.git", git, "new:load-git", "new:"},
		{"a:b:swh.git", git, "a:b:load-git", "a:b:"},
		{"swh.large", large, "large:load-git", ""},
		{"other", git, "", ""},
		{"newswh.git", git, "", ""},
	} {
		key, ok := KeyOf(tc.queue, tc.tt)
		if ok != (tc.key != "") || ok && key != tc.key {
			t.Errorf("%s: key %q, %v", tc.queue, key, ok)
			continue
		}
		if tt, prefix, found := TypeOf(key, []TaskType{git, large}); ok && (!found || tt.Type != tc.tt.Type || prefix != tc.prefix) {
			t.Errorf("%s: type %s, prefix %q, %v", key, tt.Type, prefix, found)
		}
	}
	if _, _, ok := TypeOf("load-hg", []TaskType{git, large}); ok {
		t.Error("a type that is not there")
	}
}
