package command

import (
	"runtime/debug"
	"testing"
)

// The version names the origin of a build: a release, a module's version, or a commit.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}
	changed := append(commit[:1:1], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, tc := range []struct {
		name, release, module string
		settings              []debug.BuildSetting
		want                  string
	}{
		{"make release", "v1.2.3", "(devel)", changed, "v1.2.3"},
		{"go install module@version", "", "v1.2.3", nil, "v1.2.3"},
		{"a candidate", "", "v1.2.3-rc.1", nil, "v1.2.3-rc.1"},
		{"go build of the tagged commit", "", "v1.2.3", commit, "v1.2.3"},
		{"go build", "", "(devel)", commit, "development (0123456789ab)"},
		{"go build between versions", "", "v1.2.4-0.20261127080000-0123456789ab", commit, "development (0123456789ab)"},
		{"go build of changed files", "", "v1.2.3+dirty", changed, "development (0123456789ab, modified)"},
		{"go build -buildvcs=false", "", "(devel)", nil, "development (built without its commit)"},
	} {
		if got := versionOf(tc.release, &debug.BuildInfo{Main: debug.Module{Version: tc.module}, Settings: tc.settings}); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
