package command

import (
	"cmp"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/pytext"
)

// Globals are the options that come before a command's name or after it.
type Globals struct {
	configFile  string
	database    string
	url         string
	options     []string // KEY=VALUE, set over the configuration file
	logLevels   []string
	logConfig   string
	logFormat   string
	sentryDSN   string
	sentryDebug bool
	metricsAddr string
	Version     bool // print the version and exit
	Versions    bool // print the versions and exit
}

func (g *Globals) Flags(flags *pflag.FlagSet) {
	flags.StringVarP(&g.configFile, "config-file", "C", "", "configuration `FILE` (wins over SWH_CONFIG_FILENAME)")
	flags.StringArrayVarP(&g.options, "option", "o", nil, "`KEY=VALUE` to set in the configuration: dots separate the parts of KEY, VALUE is YAML")
	flags.StringVarP(&g.database, "database", "d", "", "database `DSN`, instead of the configured scheduler")
	flags.StringVarP(&g.url, "url", "u", "", "`URL` of a scheduler's RPC server, instead of the configured scheduler")
	flags.Bool("no-stdout", false, "ignored, for compatibility with the Python command: logs always go to standard error")
	flags.StringArrayVarP(&g.logLevels, "log-level", "l", nil, "log `LEVEL`: debug, info, warning or error (default info)")
	flags.StringVar(&g.logConfig, "log-config", "", "`FILE` with a configuration of Python's logging, of which levels and JSON formatters count")
	flags.Var(Choice(&g.logFormat, "text", "json"), "log-format", "form of the log: text or json (default text)")
	flags.StringVar(&g.sentryDSN, "sentry-dsn", "", "`DSN` of the Sentry to report errors to (SWH_SENTRY_DSN wins)")
	Pair(flags, &g.sentryDebug, "sentry-debug", "", "no-sentry-debug", "log what is sent to Sentry", "don't (default)")
	for _, name := range []string{"sentry-debug", "no-sentry-debug"} {
		flags.Lookup(name).Hidden = true
	}
	flags.StringVar(&g.metricsAddr, "metrics-addr", "", "serve a daemon's /metrics to Prometheus at `HOST:PORT`")
	flags.BoolVarP(&g.Version, "version", "v", false, "version for swh-scheduler")
	flags.BoolVar(&g.Versions, "versions", false, "versions of the swh components in this program")
	PythonName(flags, "option", "options")
	PythonName(flags, "log-level", "log_levels")
	PythonName(flags, "versions", "")
	PythonName(flags, "version", "")
}

// environmentPrefix starts the names of the options' environment variables.
const environmentPrefix = "SWH_SCHEDULER"

// Prepare reads options from the environment before any command runs.
func (a *App) Prepare(cmd *cobra.Command) error {
	if err := a.PrepareGlobal(cmd.Root()); err != nil {
		return err
	}
	if err := a.reportErrors(cmd, config.Sentry{}); err != nil {
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

// PrepareGlobal reads the global options from the environment and sets up the log.
func (a *App) PrepareGlobal(root *cobra.Command) error {
	if err := fromEnvironment(root, environmentPrefix); err != nil {
		return err
	}
	// These variables belong to the program swh, of which the Python scheduler is a part.
	for name, variable := range map[string]string{
		"config-file": "SWH_CONFIG_FILE", "option": "SWH_OPTIONS", "log-level": "SWH_LOG_LEVEL", "log-config": "SWH_LOG_CONFIG",
	} {
		if err := setFrom(variable, root, root.Flags().Lookup(name)); err != nil {
			return err
		}
	}
	ignored, err := a.readLogConfig(root)
	if err != nil {
		return err
	}
	for _, text := range a.Globals.logLevels {
		level, ours, err := parseLogLevel(text)
		if err != nil {
			return Usagef(root, "Invalid value for '--log-level' / '-l': %s", err)
		}
		if ours {
			a.Level.Set(level)
		}
	}
	if a.Globals.logFormat == "json" {
		a.Log = jsonLog(a.logLines, a.Level, a.logFields)
	}
	if len(ignored) > 0 {
		a.Log.Warn("parts of the logging configuration have no effect here; see docs/reference/commands.md", "file", a.Globals.logConfig, "parts", strings.Join(ignored, ", "))
	}
	return nil
}

// logLevels maps Python's names of levels.
var logLevels = map[string]slog.Level{
	"notset": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// parseLogLevel reads LEVEL or module:LEVEL, with Python's levels. ours reports whether the module is a part of this
// program, not another Python module.
func parseLogLevel(text string) (level slog.Level, ours bool, err error) {
	module, name, found := strings.Cut(text, ":")
	if !found {
		module, name = "", text
	}
	level, ok := logLevels[strings.ToLower(name)]
	if !ok {
		return 0, false, pytext.Sentencef("Log level %s unknown (in `%s`) needs to be one of notset, debug, info, warning, error, critical", name, text)
	}
	return level, module == "" || module == "swh" || strings.HasPrefix(module, "swh.scheduler"), nil
}

// acceptGlobals adds the global options to all commands below cmd, hidden from their
// usage. An option of the command with the same name or letter wins.
func acceptGlobals(cmd *cobra.Command, globals *pflag.FlagSet) {
	for _, sub := range cmd.Commands() {
		own := sub.Flags()
		globals.VisitAll(func(g *pflag.Flag) {
			if g.Name == "version" || own.Lookup(g.Name) != nil {
				return
			}
			f := *g
			if own.ShorthandLookup(f.Shorthand) != nil {
				f.Shorthand = ""
			}
			f.Value, f.Hidden = globalValue{g.Value, g}, true
			f.Annotations = map[string][]string{parameter: {""}} // the root's option has the environment variable
			own.AddFlag(&f)
		})
		acceptGlobals(sub, globals)
	}
}

// globalValue is the value of a global option given after the command's name.
type globalValue struct {
	pflag.Value
	global *pflag.Flag
}

func (v globalValue) Set(text string) error {
	v.global.Changed = true // it takes precedence over the environment
	return v.Value.Set(text)
}

// booleans are the truth values that click reads and pflag doesn't.
var booleans = map[string]string{"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}

// fromEnvironment sets options of cmd that the command line does not set. It reads environment variables named as
// click names them: SWH_SCHEDULER, the subcommand, the parameter. Blanks separate the values of an option that may
// be repeated.
func fromEnvironment(cmd *cobra.Command, prefix string) error {
	var problem error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		name := f.Name
		if peer := f.Annotations[parameter]; peer != nil {
			name = peer[0]
		}
		if name != "" && problem == nil { // the second flag of a pair has no variable
			problem = setFrom(strings.ToUpper(strings.ReplaceAll(prefix+"_"+name, "-", "_")), cmd, f)
		}
	})
	return problem
}

// setFrom sets an option that the command line doesn't from an environment variable.
func setFrom(variable string, cmd *cobra.Command, f *pflag.Flag) error {
	text := os.Getenv(variable)
	if f.Changed || text == "" {
		return nil
	}
	if f.Value.Type() == "bool" {
		text = cmp.Or(booleans[strings.ToLower(text)], text)
	}
	values := []string{text}
	switch v := f.Value.(type) {
	case pflag.SliceValue, integers:
		values = strings.Fields(text)
	case choice:
		if v.repeated {
			values = strings.Fields(text)
		}
	}
	for _, value := range values {
		if err := f.Value.Set(value); err != nil {
			return Usagef(cmd, "%s (env var: '%s')", Invalid(f, value, err), variable)
		}
	}
	f.Changed = true
	return nil
}
