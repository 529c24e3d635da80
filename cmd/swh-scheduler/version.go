package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set when a release is linked: -ldflags "-X main.release=1.2.3".
var release string

// version is the release, or for a build between releases the commit.
func version() string {
	if release != "" {
		return release
	}
	commit, modified := "unknown commit", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", modified"
			}
		}
	}
	return "development (" + commit + modified + ")"
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		Short:                 "Shows the version of this program",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
		RunE:                  work(func(cmd *cobra.Command, _ []string) error { return a.printVersion(cmd) }),
	}
}

func (a *app) printVersion(cmd *cobra.Command) error {
	return a.print(cmd.Root().Name() + ", version " + version() + "\n")
}
