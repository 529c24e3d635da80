package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/rpm"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: packages DIRECTORY VERSION ARCHITECTURE OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// run writes both packages into the directory out.
func run(directory, release, architecture, out string) (err error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is no time: %w", err)
	}
	when := time.Unix(seconds, 0).UTC()
	made, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if err := makePages(made, release, when); err != nil {
		return err
	}
	if err := makeCompletions(made, release); err != nil {
		return err
	}
	for _, packager := range []nfpm.PackagerWithExtension{deb.Default, rpm.DefaultRPM} {
		// Each package format has its own name of the architecture.
		info, err := describe(directory, made, release, architecture, when)
		if err != nil {
			return err
		}
		if packager == nfpm.PackagerWithExtension(rpm.DefaultRPM) {
			info.Depends = []string{"/usr/sbin/useradd"} // for preinst
		}
		if err := write(filepath.Join(out, packager.ConventionalFileName(info)), packager, info); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, packager nfpm.Packager, info *nfpm.Info) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return packager.Package(info, file)
}
