package main

import (
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// globalOptions come before the subcommand.
type globalOptions struct {
	configFile  string
	database    string
	url         string
	noStdout    bool
	logLevels   []string
	logFormat   string
	metricsAddr string
	version     bool
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "swh-scheduler [OPTIONS] COMMAND [ARGS]...",
		Short: "Software Heritage Scheduler tools",
		Long: `Software Heritage Scheduler tools.

The configuration is the YAML file named by --config-file or by the environment
variable SWH_CONFIG_FILENAME. Every option can also be given as an environment
variable: SWH_SCHEDULER_DATABASE for --database, and, for instance,
SWH_SCHEDULER_START_RUNNER_PERIOD for start-runner --period.`,
		TraverseChildren:      true, // these options go before the subcommand, as with the peer: some have the same letter as one of a subcommand
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		PersistentPreRunE:     func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.options.version {
				return a.printVersion(cmd)
			}
			return group(cmd, args)
		},
	}
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef(cmd, "%s", flagProblem(cmd, err)) })
	flags := root.Flags()
	flags.StringVarP(&a.options.configFile, "config-file", "C", "", "configuration `FILE` (wins over SWH_CONFIG_FILENAME)")
	flags.StringVarP(&a.options.database, "database", "d", "", "database `DSN`, instead of the configured scheduler")
	flags.StringVarP(&a.options.url, "url", "u", "", "`URL` of a scheduler's RPC server, instead of the configured scheduler")
	flags.BoolVar(&a.options.noStdout, "no-stdout", false, "accepted for the Python command's sake; logs go to standard error anyway")
	flags.StringArrayVarP(&a.options.logLevels, "log-level", "l", nil, "log `LEVEL`: debug, info, warning or error (default info)")
	flags.Var(choice{&a.options.logFormat, []string{"text", "json"}}, "log-format", "form of the log: text or json (default text)")
	flags.StringVar(&a.options.metricsAddr, "metrics-addr", "", "serve a daemon's /metrics to Prometheus at `HOST:PORT`")
	flags.BoolVarP(&a.options.version, "version", "v", false, "version for swh-scheduler")
	peerName(flags, "log-level", "log_levels")
	peerName(flags, "version", "")

	root.AddCommand(
		newTask(a), newTaskType(a), newOrigin(a), newAddForgeNow(a),
		newStartRunner(a), newStartRunnerFirstVisits(a), newStartListener(a), newScheduleRecurrent(a), newJournalClient(a), newCeleryMonitor(a),
		newRPCServe(a), newSimulator(a), newExplain(a), newConfig(a), newShares(a), newLanes(a),
		newMigrate(a), newVersion(a),
	)
	a.addCompletion(root)
	return root
}

// withoutGroup leaves out the word scheduler where a command would be: by a link
// named swh, the program takes "swh scheduler task list" as the peer's does.
func withoutGroup(flags *pflag.FlagSet, args []string) []string {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "scheduler":
			return slices.Delete(slices.Clone(args), i, i+1)
		case len(arg) < 2 || arg[0] != '-' || arg == "--":
			return args
		}
		var flag *pflag.Flag
		name, long := strings.CutPrefix(arg, "--")
		switch {
		case !long && len(arg) == 2:
			flag = flags.ShorthandLookup(arg[1:])
		case long:
			flag = flags.Lookup(name) // none if the value is in the same word
		}
		if flag != nil && flag.NoOptDefVal == "" {
			i++ // its value
		}
	}
	return args
}

// environmentPrefix begins the names of environment variables.
const environmentPrefix = "SWH_SCHEDULER"

// prepare takes options from the environment before any command runs.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := a.prepareGlobal(cmd.Root(), environmentPrefix); err != nil {
		return err
	}
	for c := cmd; c.HasParent(); c = c.Parent() {
		path := strings.Fields(c.CommandPath())[1:]
		if err := fromEnvironment(c, strings.Join(append([]string{environmentPrefix}, path...), "_")); err != nil {
			return err
		}
	}
	return nil
}

// prepareGlobal takes the global options from the environment and sets up the
// log.
func (a *app) prepareGlobal(root *cobra.Command, prefix string) error {
	if err := fromEnvironment(root, prefix); err != nil {
		return err
	}
	// These two belong to the program swh, of which the peer is a part.
	if a.options.configFile == "" {
		a.options.configFile = os.Getenv("SWH_CONFIG_FILE")
	}
	if len(a.options.logLevels) == 0 {
		a.options.logLevels = strings.Fields(os.Getenv("SWH_LOG_LEVEL"))
	}
	for _, text := range a.options.logLevels {
		level, ours, err := parseLogLevel(text)
		if err != nil {
			return usagef(root, "Invalid value for '--log-level' / '-l': %s", err)
		}
		if ours {
			a.level.Set(level)
		}
	}
	if a.options.logFormat == "json" {
		a.log = slog.New(slog.NewJSONHandler(a.logLines, &slog.HandlerOptions{Level: a.level}))
	}
	return nil
}

// parseLogLevel reads LEVEL or module:LEVEL, with Python's levels. ours says
// whether it is meant for this program: module names one of Python's otherwise.
func parseLogLevel(text string) (level slog.Level, ours bool, err error) {
	module, name, found := strings.Cut(text, ":")
	if !found {
		module, name = "", text
	}
	levels := map[string]slog.Level{
		"notset": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
		"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
	}
	level, ok := levels[strings.ToLower(name)]
	if !ok {
		return 0, false, sentencef("Log level %s unknown (in `%s`) needs to be one of notset, debug, info, warning, error, critical", name, text)
	}
	return level, module == "" || module == "swh" || strings.HasPrefix(module, "swh.scheduler"), nil
}
