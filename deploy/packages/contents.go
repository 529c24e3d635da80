package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli"
)

const (
	name = "swh-scheduler"
	docs = "/usr/share/doc/" + name
	// user is the system user of the daemons, and its group, which may read their configuration.
	user = "swh-scheduler"
)

// completions are where shells find them below /usr/share, by shell and packager.
var completions = map[string]map[string]string{
	"bash": {"": "bash-completion/completions/" + name},
	"zsh":  {"deb": "zsh/vendor-completions/_" + name, "rpm": "zsh/site-functions/_" + name},
	"fish": {"": "fish/vendor_completions.d/" + name + ".fish"},
}

//go:embed copyright
var copyright []byte

//go:embed scripts/preinst
var preinst []byte

//go:embed scripts/postinst
var postinst []byte

//go:embed scripts/prerm
var prerm []byte

//go:embed scripts/postrm
var postrm []byte

// describe returns the contents of both packages: the directory of a release, and the pages, completions and scripts
// that it writes to made.
func describe(directory, made, release, architecture string, when time.Time) (*nfpm.Info, error) {
	contents, err := list(directory, made, when)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: name, Arch: architecture, Platform: "linux",
		Version: packageVersion(release, when), VersionSchema: "none",
		Section: "net", Priority: "optional",
		Maintainer: "swh-scheduler in Go <root@localhost>", // until it has a public home
		License:    "GPL-3.0-or-later",
		Description: `scheduler of the Software Heritage archive
The daemons and commands that decide what the archive's workers do and when:
they send tasks and visits of origins to Celery's queues, and record how they
ended. A replacement of those of the Python package swh.scheduler, on the same
database, with the same configuration.`,
		DisableGlobbing: true,
		MTime:           when,
	}
	info.Contents = contents
	info.Recommends = []string{"ca-certificates"}
	info.Deb.Predepends = []string{"passwd"} // for useradd, in preinst
	info.RPM.BuildHost, info.RPM.Summary = "localhost", "Scheduler of the Software Heritage archive"
	for file, script := range map[string]struct {
		text []byte
		path *string
	}{
		"preinst": {preinst, &info.Scripts.PreInstall}, "postinst": {postinst, &info.Scripts.PostInstall},
		"prerm": {prerm, &info.Scripts.PreRemove}, "postrm": {postrm, &info.Scripts.PostRemove},
	} {
		*script.path = filepath.Join(made, file)
		if err := os.WriteFile(*script.path, script.text, 0o700); err != nil {
			return nil, err
		}
	}
	return nfpm.WithDefaults(info), nil
}

// list returns the files and directories of the packages.
func list(directory, made string, when time.Time) (files.Contents, error) {
	if err := os.WriteFile(filepath.Join(made, "copyright"), copyright, 0o600); err != nil {
		return nil, err
	}
	own := func(mode fs.FileMode, group string) *files.ContentFileInfo {
		return &files.ContentFileInfo{Owner: "root", Group: group, Mode: mode, MTime: when}
	}
	contents := files.Contents{
		{Source: filepath.Join(directory, name), Destination: "/usr/bin/" + name, FileInfo: own(0o755, "root")},
		{Source: filepath.Join(made, "copyright"), Destination: docs + "/copyright", FileInfo: own(0o644, "root")},
		// Operators fill it with passwords, keys and files for single daemons.
		{Destination: "/etc/softwareheritage/scheduler", Type: files.TypeDir, FileInfo: own(0o750, user)},
	}
	directories := map[string]bool{docs: true}
	add := func(from, to, kind string, mode fs.FileMode) error {
		found := 0
		err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			destination := to + strings.TrimPrefix(path, from)
			if entry.IsDir() {
				if strings.HasPrefix(destination, docs) { // rpm removes only these
					directories[destination] = true
				}
				return nil
			}
			found++
			contents = append(contents, &files.Content{Source: path, Destination: destination, Type: kind, FileInfo: own(mode, "root")})
			return nil
		})
		if err == nil && found == 0 {
			return fmt.Errorf("%s has no file", from)
		}
		return err
	}
	for _, f := range []struct {
		from, to, kind string
		mode           fs.FileMode
	}{
		{filepath.Join(directory, "systemd", "swh-scheduler@.service"), "/usr/lib/systemd/system/swh-scheduler@.service", "", 0o644},
		{filepath.Join(directory, "systemd", "swh-scheduler.target"), "/usr/lib/systemd/system/swh-scheduler.target", "", 0o644},
		// Operators can give any option there, also passwords.
		{filepath.Join(directory, "systemd", "env"), "/etc/softwareheritage/scheduler", files.TypeConfigNoReplace, 0o600},
		{filepath.Join(directory, "systemd", "swh-scheduler@rpc.service.d"), docs + "/examples/swh-scheduler@rpc.service.d", "", 0o644},
		{filepath.Join(directory, "systemd", "file-per-daemon.conf"), docs + "/examples/file-per-daemon.conf", "", 0o644},
		{filepath.Join(directory, "config"), docs + "/examples", "", 0o644},
		{filepath.Join(directory, "prometheus"), docs + "/examples/prometheus", "", 0o644},
		{filepath.Join(directory, "grafana"), docs + "/examples/grafana", "", 0o644},
		{filepath.Join(directory, "docs"), docs + "/docs", "", 0o644},
		{filepath.Join(directory, "README.md"), docs + "/README.md", "", 0o644},
		{filepath.Join(directory, "CHANGELOG.md"), docs + "/CHANGELOG.md", "", 0o644},
		{filepath.Join(directory, "LICENSE"), docs + "/LICENSE", "", 0o644},
		{filepath.Join(directory, "LICENSES"), docs + "/LICENSES", "", 0o644},
		{filepath.Join(made, "man1"), "/usr/share/man/man1", "", 0o644},
	} {
		if err := add(f.from, f.to, f.kind, f.mode); err != nil {
			return nil, err
		}
	}
	for path := range directories {
		contents = append(contents, &files.Content{Destination: path, Type: files.TypeDir, FileInfo: own(0o755, "root")})
	}
	for shell, places := range completions {
		for packager, place := range places {
			contents = append(contents, &files.Content{Source: filepath.Join(made, shell), Destination: "/usr/share/" + place, Packager: packager, FileInfo: own(0o644, "root")})
		}
	}
	return contents, nil
}

// makePages writes a man page of each command to made/man1, compressed as Debian and rpm require.
func makePages(made, release string, when time.Time) error {
	pages := filepath.Join(made, "man1")
	if err := os.Mkdir(pages, 0o700); err != nil {
		return err
	}
	root := cli.Root(release, io.Discard, io.Discard)
	root.DisableAutoGenTag = true
	escape(root)
	header := &doc.GenManHeader{Section: "1", Date: &when, Source: name + " " + release, Manual: "Software Heritage scheduler"}
	if err := doc.GenManTree(root, header, pages); err != nil {
		return err
	}
	written, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range written {
		if err := compress(page); err != nil {
			return err
		}
	}
	return nil
}

// inMarkdown matches the characters of help that have a meaning in Markdown, the source of the pages.
var inMarkdown = regexp.MustCompile("[\\\\`*_<>\\[\\]#]")

// escape escapes the help of a command and those below it, so that Markdown shows it unchanged.
func escape(cmd *cobra.Command) {
	plain := func(text string) string { return inMarkdown.ReplaceAllString(text, `\$0`) }
	cmd.Short, cmd.Long = plain(cmd.Short), plain(cmd.Long)
	for _, flags := range []*pflag.FlagSet{cmd.NonInheritedFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(f.Usage, `\`) { // inherited options come again
				_, usage := pflag.UnquoteUsage(f)
				f.Usage = plain(usage)
			}
		})
	}
	for _, below := range cmd.Commands() {
		escape(below)
	}
}

// makeCompletions writes the shells' completions of the program's commands to made, a file for each shell.
func makeCompletions(made, release string) error {
	for shell := range completions {
		var script, mistakes bytes.Buffer
		if code := cli.Run(context.Background(), release, []string{"completion", shell}, &script, &mistakes); code != 0 {
			return fmt.Errorf("completion %s: %s", shell, &mistakes)
		}
		if err := os.WriteFile(filepath.Join(made, shell), script.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}
