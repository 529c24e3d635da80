package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
)

// Errors of the command line have the texts of click, which the Python scheduler uses.

// usageError is an error of the command line, with exit code 2. Without a problem, only the usage is printed.
type usageError struct {
	cmd     *cobra.Command
	problem string
}

func (e *usageError) Error() string { return e.problem }

func Usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Sprintf(format, args...)}
}

// failure is an error of a command's work. An error of another type is cobra's, of the command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Work makes the function of a command and marks its errors as failures.
func Work(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

// ExitCode prints the error of a command line, if any, and returns the exit code.
func (a *App) ExitCode(root *cobra.Command, err error) int {
	defer a.sentry.Close()
	if err == nil {
		return 0
	}
	usage, isUsage := errors.AsType[*usageError](err)
	if _, isFailure := errors.AsType[failure](err); isFailure && !isUsage {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(a.Stderr, "swh-scheduler: %s\n", strings.TrimSuffix(line, "\n"))
		}
		a.sentry.Error(err)
		return 1
	}
	if !isUsage {
		usage = &usageError{root, flagProblem(root, err)}
	}
	if usage.problem == "" {
		fmt.Fprint(a.Stderr, usage.cmd.UsageString())
	} else {
		fmt.Fprintf(a.Stderr, "Usage: %s\nTry '%s --help' for help.\n\nError: %s\n", usage.cmd.UseLine(), usage.cmd.CommandPath(), usage.problem)
	}
	return 2
}

// usage prints the usage of a command. A template would keep the linker from dropping unused methods: the binary
// would be a fifth larger.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		b.WriteString("\n")
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nOptions:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n"))
	}
	cmd.Print(b.String())
	return nil
}

// flagProblem returns click's text for an error of pflag.
func flagProblem(cmd *cobra.Command, err error) string {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if short := e.GetSpecifiedShortnames(); short != "" {
			return fmt.Sprintf("No such option '-%.1s'.", e.GetSpecifiedName())
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		return fmt.Sprintf("No such option '--%s'.%s", e.GetSpecifiedName(), didYouMean("--", e.GetSpecifiedName(), known))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Sprintf("Option '--%s' requires an argument.", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Invalid(e.GetFlag(), e.GetValue(), e.Unwrap())
	}
	return err.Error()
}

// Invalid returns click's text for an invalid value of an option.
func Invalid(flag *pflag.Flag, value string, cause error) string {
	name := fmt.Sprintf("'--%s'", flag.Name)
	if flag.Shorthand != "" {
		name += fmt.Sprintf(" / '-%s'", flag.Shorthand)
	}
	problem := cause.Error()
	if _, isNumber := errors.AsType[*strconv.NumError](cause); isNumber {
		what := map[string]string{"int": "integer", "int64": "integer", "uint64": "integer of at least 0", "float64": "float", "bool": "boolean", "uint16": "port (0 to 65535)"}[flag.Value.Type()]
		problem = fmt.Sprintf("'%s' is not a valid %s.", value, what)
	}
	return fmt.Sprintf("Invalid value for %s: %s", name, problem)
}

// Args checks the number of a command's arguments, which have these names. The last one
// may be repeated if it ends in "...", and left out if it begins with "[".
func Args(names ...string) cobra.PositionalArgs {
	last := ""
	if len(names) > 0 {
		last = names[len(names)-1]
	}
	required := names
	if strings.HasPrefix(last, "[") {
		required = names[:len(names)-1]
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(required) {
			return Usagef(cmd, "Missing argument '%s'.", required[len(args)])
		}
		if extra := args[min(len(names), len(args)):]; len(extra) > 0 && !strings.HasSuffix(last, "...") {
			plural := ""
			if len(extra) > 1 {
				plural = "s"
			}
			return Usagef(cmd, "Got unexpected extra argument%s (%s)", plural, strings.Join(extra, " "))
		}
		return nil
	}
}

// Exclusive returns an error if more than one of these options was given.
func Exclusive(cmd *cobra.Command, options ...string) error {
	var given []string
	for _, option := range options {
		if cmd.Flags().Changed(option) {
			given = append(given, "'--"+option+"'")
		}
	}
	if len(given) > 1 {
		return Usagef(cmd, "%s exclude each other.", strings.Join(given, " and "))
	}
	return nil
}

// Complete sets the defaults of a root command and of all commands below it: the usage, no arguments, and Group for
// groups.
func Complete(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	switch {
	case cmd.HasSubCommands() && cmd.RunE == nil:
		cmd.Args, cmd.RunE = nil, Group
	case !cmd.HasSubCommands() && cmd.Args == nil:
		cmd.Args = Args()
	}
	for _, sub := range cmd.Commands() {
		Complete(sub)
	}
	if !cmd.HasParent() {
		cmd.SetUsageFunc(usage)
		cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usagef(cmd, "%s", flagProblem(cmd, err)) })
		acceptGlobals(cmd, cmd.Flags())
	}
}

// Group is the function of a command that only has subcommands. It returns an error that suggests one.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usagef(cmd, "")
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return Usagef(cmd, "No such command '%s'.%s", args[0], didYouMean("", args[0], known))
}

// didYouMean returns click's question for the known name nearest to name, or "".
func didYouMean(before, name string, known []string) string {
	if near := config.Nearest(name, known); near != "" {
		return fmt.Sprintf(" Did you mean '%s%s'?", before, near)
	}
	return ""
}

// DidYouMean returns a question for the known name nearest to name, or "".
func DidYouMean(name string, known []string) string { return didYouMean("", name, known) }

// UnknownTaskType turns the error of an unknown task type into one of the command line.
func UnknownTaskType(cmd *cobra.Command, err error, format string) error {
	if unknown, ok := errors.AsType[model.UnknownTaskType](err); ok {
		return Usagef(cmd, format, string(unknown))
	}
	return err
}
