// Command swh-scheduler schedules the work of the Software Heritage archive. It
// has the commands of the Python "swh scheduler", of which it reads the
// configuration and the database; see the README.
//
// This package holds flags and wiring only: a file a subcommand, which makes
// what it needs from the configuration and hands over to the packages that do
// the work.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a clean stop; a second one then has its default
	// effect and ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line and returns the exit code: 0, 1 for a failure, or 2
// for a command line or configuration that cannot be used (as the peer has it).
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := newApp(stdout, stderr)
	root := newRoot(a)
	root.SetArgs(withoutGroup(root.Flags(), args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exitCode(root, root.ExecuteContext(ctx))
}
