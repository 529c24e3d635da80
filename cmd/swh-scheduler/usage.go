package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/config"
)

// Command lines are understood and refused as click does it for the peer, with
// the same words: scripts and fingers know them.

// usageError is a command line that cannot be used; exit code 2. With no problem
// named, the usage itself is all there is to say.
type usageError struct {
	cmd     *cobra.Command
	problem string
}

func (e *usageError) Error() string { return e.problem }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Sprintf(format, args...)}
}

// failure is an error of a command's work, unlike those that cobra finds in the
// command line.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// work makes the function of a command that does something.
func work(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := do(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

// exitCode reports what became of a command line.
func (a *app) exitCode(root *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	usage, isUsage := errors.AsType[*usageError](err)
	if _, isFailure := errors.AsType[failure](err); !isUsage && !isFailure {
		usage, isUsage = &usageError{root, flagProblem(root, err)}, true
	}
	switch {
	case isUsage && usage.problem == "":
		fmt.Fprint(a.stderr, usage.cmd.UsageString())
		return 2
	case isUsage:
		fmt.Fprintf(a.stderr, "Usage: %s\nTry '%s --help' for help.\n\nError: %s\n", usage.cmd.UseLine(), usage.cmd.CommandPath(), usage.problem)
		return 2
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(a.stderr, "swh-scheduler: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return 1
}

// usage writes how a command is used. Not by a template: a program that has them can
// call any method by its name, so that the linker leaves none out, and ours grows by
// a fifth.
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

// sentence is an error whose text is a sentence that scripts and fingers know
// from the peer.
type sentence string

func (s sentence) Error() string { return string(s) }

func sentencef(format string, args ...any) error { return sentence(fmt.Sprintf(format, args...)) }

// flagProblem is click's text for an error of pflag.
func flagProblem(cmd *cobra.Command, err error) string {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if short := e.GetSpecifiedShortnames(); short != "" {
			return fmt.Sprintf("No such option '-%.1s'.", e.GetSpecifiedName())
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		problem := fmt.Sprintf("No such option '--%s'.", e.GetSpecifiedName())
		if near := config.Nearest(e.GetSpecifiedName(), known); near != "" {
			problem += fmt.Sprintf(" Did you mean '--%s'?", near)
		}
		return problem
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Sprintf("Option '--%s' requires an argument.", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalid(e.GetFlag(), e.GetValue(), e.Unwrap())
	}
	return err.Error()
}

// invalid says that an option cannot have a value.
func invalid(flag *pflag.Flag, value string, cause error) string {
	name := fmt.Sprintf("'--%s'", flag.Name)
	if flag.Shorthand != "" {
		name += fmt.Sprintf(" / '-%s'", flag.Shorthand)
	}
	problem := cause.Error()
	if _, isNumber := errors.AsType[*strconv.NumError](cause); isNumber {
		what := map[string]string{"int": "integer", "float64": "float", "bool": "boolean"}[flag.Value.Type()]
		problem = fmt.Sprintf("'%s' is not a valid %s.", value, what)
	}
	return fmt.Sprintf("Invalid value for %s: %s", name, problem)
}

// arguments checks the number of a command's arguments, which are called names;
// if many, the last may be there any number of times (optional says: or none).
func arguments(many, optional bool, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		required := names
		if optional {
			required = names[:len(names)-1]
		}
		if len(args) < len(required) {
			return usagef(cmd, "Missing argument '%s'.", required[len(args)])
		}
		if extra := args[min(len(names), len(args)):]; len(extra) > 0 && !many {
			plural := ""
			if len(extra) > 1 {
				plural = "s"
			}
			return usagef(cmd, "Got unexpected extra argument%s (%s)", plural, strings.Join(extra, " "))
		}
		return nil
	}
}

// group is the function of a command that only has subcommands.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef(cmd, "")
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	problem := fmt.Sprintf("No such command '%s'.", args[0])
	if near := config.Nearest(args[0], known); near != "" {
		problem += fmt.Sprintf(" Did you mean '%s'?", near)
	}
	return usagef(cmd, "%s", problem)
}

// choice is an option with a few values.
type choice struct {
	value   *string
	choices []string
}

func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}
func (c choice) Type() string { return strings.Join(c.choices, "|") }
func (c choice) Set(s string) error {
	if !slices.Contains(c.choices, s) {
		return sentencef("'%s' is not one of '%s'.", s, strings.Join(c.choices, "', '"))
	}
	*c.value = s
	return nil
}

// choices is a flag that may be repeated, each time with one of some words.
type choices struct {
	values  *[]string
	choices []string
}

func (c choices) String() string {
	if c.values == nil {
		return ""
	}
	return strings.Join(*c.values, ",")
}
func (c choices) Type() string { return strings.Join(c.choices, "|") }
func (c choices) Set(s string) error {
	var one string
	if err := (choice{&one, c.choices}).Set(s); err != nil {
		return err
	}
	*c.values = append(*c.values, one)
	return nil
}

// integer reads a whole number as Python's int does: blanks around it, a sign and
// underscores between digits are fine.
func integer(text string) (int64, error) {
	plain := strings.TrimSpace(text)
	if !pythonInt.MatchString(plain) {
		return 0, sentencef("'%s' is not a valid integer.", text)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(plain, "_", ""), 10, 64)
	if err != nil {
		return 0, sentencef("'%s' is out of range.", text)
	}
	return n, nil
}

var pythonInt = regexp.MustCompile(`^[-+]?\d+(?:_\d+)*$`)

// integers is a flag that may be repeated, each time with a whole number.
type integers struct{ values *[]int64 }

func (i integers) String() string { return "" }
func (i integers) Type() string   { return "INTEGER" }
func (i integers) Set(s string) error {
	n, err := integer(s)
	*i.values = append(*i.values, n)
	return err
}

// parameter is the annotation of a flag that has another name with the peer,
// which is the one that its environment variable is made of.
const parameter = "parameter"

func peerName(flags *pflag.FlagSet, flag, name string) {
	if err := flags.SetAnnotation(flag, parameter, []string{name}); err != nil {
		panic(err) // no such flag
	}
}

// pair adds two flags for the two values of an option, as click has it: the last
// one counts, and the first has the environment variable.
func pair(flags *pflag.FlagSet, value *bool, yes, no, yesUsage, noUsage string) {
	pairP(flags, value, yes, "", no, yesUsage, noUsage)
}

// pairP is pair with a letter for the first of them.
func pairP(flags *pflag.FlagSet, value *bool, yes, letter, no, yesUsage, noUsage string) {
	flags.BoolVarP(value, yes, letter, *value, yesUsage)
	flags.Lookup(yes).DefValue = "false" // the usage says which is the default
	flags.BoolFunc(no, noUsage, func(string) error {
		*value = false
		flags.Lookup(yes).Changed = true
		return nil
	})
	peerName(flags, no, "")
}

// boolean is a truth value as click reads it, in a word that pflag reads.
func boolean(text string) string {
	switch strings.ToLower(text) {
	case "y", "yes", "on":
		return "true"
	case "n", "no", "off":
		return "false"
	}
	return text
}

// fromEnvironment sets the options of cmd that were not given from environment
// variables, named as click names them for the peer: SWH_SCHEDULER, then the
// subcommand, then the parameter. An option that may be repeated takes several
// values separated by blanks.
func fromEnvironment(cmd *cobra.Command, prefix string) error {
	var problem error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		name := f.Name
		if peer := f.Annotations[parameter]; peer != nil {
			name = peer[0]
		}
		if name == "" {
			return // the other word of a pair, of which the first has the variable
		}
		variable := strings.ToUpper(strings.ReplaceAll(prefix+"_"+name, "-", "_"))
		text := os.Getenv(variable)
		if f.Changed || text == "" || problem != nil {
			return
		}
		if f.Value.Type() == "bool" {
			text = boolean(text)
		}
		values := []string{text}
		switch f.Value.(type) {
		case pflag.SliceValue, choices, integers:
			values = strings.Fields(text)
		}
		for _, value := range values {
			if err := f.Value.Set(value); err != nil {
				problem = usagef(cmd, "%s (env var: '%s')", invalid(f, value, err), variable)
				return
			}
		}
		f.Changed = true
	})
	return problem
}
