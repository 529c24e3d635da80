package command

import (
	"regexp"
	"runtime/debug"
)

// version returns the version of this program, built as a release or not.
func version(release string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(release, info)
}

// versionOf returns the release that the program was built as, or the version that `go install MODULE@VERSION` asked for.
// Of any other build it returns the commit, as Go records it in a checkout.
func versionOf(release string, info *debug.BuildInfo) string {
	if release != "" {
		return release
	}
	if v := info.Main.Version; released.MatchString(v) {
		return v
	}
	commit, modified := "built without its commit", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return "development (" + commit + modified + ")"
}

// released matches versions of releases; Go makes up others, with the time and the commit, between two of them.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.\d]*)?$`)
