// Package cli is the command line: its root, and the commands without a package of their own.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/addforge"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/cli/monitor"
	"swh-scheduler/internal/cli/origin"
	"swh-scheduler/internal/cli/peerdb"
	"swh-scheduler/internal/cli/session"
	"swh-scheduler/internal/cli/settings"
	"swh-scheduler/internal/cli/simulate"
	"swh-scheduler/internal/cli/start"
	"swh-scheduler/internal/cli/task"
	"swh-scheduler/internal/cli/tasktype"
)

// Run runs one command line and returns the exit code: 0, 1 for a failure, or 2 for an
// unusable command line or configuration, as the Python command does. release is the
// version of this program; "" between releases.
func Run(ctx context.Context, release string, args []string, stdout, stderr io.Writer) int {
	a := command.New(release, stdout, stderr)
	root := newRoot(a)
	root.SetArgs(withoutGroup(root.Flags(), args))
	var unknown error
	helpOf(root, &unknown)
	return a.ExitCode(root, cmp.Or(root.ExecuteContext(ctx), unknown))
}

// Root returns the root command, from which man pages are made.
func Root(release string, stdout, stderr io.Writer) *cobra.Command {
	return newRoot(command.New(release, stdout, stderr))
}

func newRoot(a *command.App) *cobra.Command {
	printVersion := func(cmd *cobra.Command) error {
		return a.Print(cmd.Root().Name() + ", version " + a.Version + "\n")
	}
	root := &cobra.Command{
		Use:   "swh-scheduler [OPTIONS] COMMAND [ARGS]...",
		Short: "Software Heritage Scheduler tools",
		Long: `Software Heritage Scheduler tools.

The configuration is the YAML file named by --config-file or by the environment
variable SWH_CONFIG_FILENAME. Every option can also be given as an environment
variable: SWH_SCHEDULER_DATABASE for --database, and, for instance,
SWH_SCHEDULER_START_RUNNER_PERIOD for start-runner --period. The options below can
come before the command or after it. After it, a letter that both have (-l of task
list) means the command's own option.`,
		TraverseChildren:  true, // options before a command's name are the root's, even if the command has the same letter
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.Prepare(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case a.Globals.Versions:
				return a.Print(fmt.Sprintf("%s, version %s\nInstalled swh components:\n  swh.scheduler, version %[2]s (%[1]s, in Go)\n", cmd.Root().Name(), a.Version))
			case a.Globals.Version:
				return printVersion(cmd)
			}
			return command.Group(cmd, args)
		},
	}
	a.Globals.Flags(root.Flags())
	root.AddCommand(
		task.New(a), tasktype.New(a), origin.New(a), addforge.New(a),
		start.NewRunner(a), start.NewFirstVisits(a), start.NewListener(a), start.NewRecurrent(a), start.NewJournal(a), monitor.New(a),
		start.NewRPCServe(a), start.NewDashboard(a), simulate.New(a), newExplain(a), newForecast(a), settings.New(a), newShares(a), newLanes(a), newHosters(a), newLister(a), newQueue(a), session.New(a),
		newMigrate(a), peerdb.New(a),
		&cobra.Command{
			Use:   "version",
			Short: "Shows the version of this program",
			RunE:  command.Work(func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) }),
		},
	)
	command.ReadOnly(root,
		"task list", "task list-pending", "task-type list", "task graph list", "task graph status", "task graph show",
		"origin peek-next", "origin check-listed-origins", "origin check-ingested-origins",
		"explain", "forecast", "shares status", "lanes status", "hosters status")
	command.ReadOnlyWithout(root, "lister gone", "confirm", "dismiss")
	command.ReadOnlyWithout(root, "lister weight", "set")
	command.ReadOnlyWithout(root, "hosters reset", "confirm")
	root.SetOut(a.Stdout) // before the commands of completion are added, which keep the output they are made with
	root.SetErr(a.Stderr)
	root.InitDefaultCompletionCmd()
	command.Complete(root)
	addCompletion(a, root)
	return root
}

// helpOf makes the help of an unknown command an error, as in the Python command. It stores the error in mistake.
func helpOf(root *cobra.Command, mistake *error) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if word := unknownWord(cmd, args); word == "" {
			help(cmd, args)
		} else {
			*mistake = command.Group(cmd, []string{word})
		}
	})
}

// unknownWord returns the word in the place of a subcommand of cmd, before any --help; "" if there is none. args
// begin after the root's name.
func unknownWord(cmd *cobra.Command, args []string) string {
	if !cmd.HasSubCommands() {
		return ""
	}
	var path []*cobra.Command // above cmd, the nearest first
	for up := cmd; up.HasParent(); up = up.Parent() {
		path = append(path, up.Parent())
	}
	for _, group := range slices.Backward(path) {
		args = args[min(firstWord(group.Flags(), args)+1, len(args)):]
	}
	at := firstWord(cmd.Flags(), args)
	asks := func(arg string) bool { return arg == "-h" || strings.HasPrefix(arg, "--help") }
	if at == len(args) || args[at] == "--" || slices.ContainsFunc(args[:at], asks) {
		return ""
	}
	return args[at]
}

// withoutGroup drops the word scheduler in the place of a command: a link named swh takes "swh scheduler task list"
// as the Python command does.
func withoutGroup(flags *pflag.FlagSet, args []string) []string {
	if i := firstWord(flags, args); i < len(args) && args[i] == "scheduler" {
		return slices.Delete(slices.Clone(args), i, i+1)
	}
	return args
}

// firstWord returns the index of the first word that is neither an option nor its value. It returns that of "--" if
// that comes first, and len(args) if there is no such word.
func firstWord(flags *pflag.FlagSet, args []string) int {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' || arg == "--" {
			return i
		}
		var flag *pflag.Flag // nil if its value is in the same word
		if name, long := strings.CutPrefix(arg, "--"); long {
			flag = flags.Lookup(name)
		} else if len(arg) == 2 {
			flag = flags.ShorthandLookup(arg[1:])
		}
		if flag != nil && flag.NoOptDefVal == "" {
			i++ // its value
		}
	}
	return len(args)
}
