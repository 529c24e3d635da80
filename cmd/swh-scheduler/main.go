// Command swh-scheduler schedules the work of the Software Heritage archive. It
// has the commands of the Python "swh scheduler", of which it reads the
// configuration and the database; see the README and package internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"swh-scheduler/internal/cli"
)

// release is set when a release is linked: -ldflags "-X main.release=1.2.3".
var release string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a clean stop; a second one then has its default
	// effect and ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.RunAs(ctx, release, os.Args[0], os.Args[1:], os.Stdout, os.Stderr))
}
