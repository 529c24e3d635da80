package command

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/sentry"
)

// reportErrors starts the reports to Sentry. The DSN is that of the environment (SWH_SENTRY_…), else of the command
// line, else of the configuration.
func (a *App) reportErrors(cmd *cobra.Command, c config.Sentry) error {
	dsn, fromEnvironment := os.LookupEnv("SWH_SENTRY_DSN")
	if !fromEnvironment {
		dsn = cmp.Or(a.Globals.sentryDSN, string(c.DSN))
	}
	log := sentry.Unreported(a.Log.Handler())
	var debug io.Writer
	if a.flagOf("SWH_SENTRY_DEBUG", a.Globals.sentryDebug) {
		debug = slog.NewLogLogger(log, slog.LevelInfo).Writer()
	}
	reporter, err := sentry.New(sentry.Options{
		DSN: dsn, Environment: cmp.Or(os.Getenv("SWH_SENTRY_ENVIRONMENT"), c.Environment),
		Release: cmp.Or(os.Getenv("SWH_MAIN_PACKAGE"), c.MainPackage, "swh-scheduler") + "@" + a.Version,
		Command: cmd.CommandPath(), ErrorsOnly: a.flagOf("SWH_SENTRY_DISABLE_LOGGING_EVENTS", c.DisableLoggingEvents), Debug: debug,
	})
	if err != nil {
		return failure{fmt.Errorf("SWH_SENTRY_DSN, --sentry-dsn or sentry.dsn %w", err)}
	}
	a.sentry.Close()
	a.sentry = reporter
	a.Log = slog.New(reporter.Handler(log))
	return nil
}

// flagOf returns the truth value of an environment variable, or otherwise if the variable is not set.
func (a *App) flagOf(variable string, otherwise bool) bool {
	text := strings.ToLower(os.Getenv(variable))
	if is, err := strconv.ParseBool(cmp.Or(booleans[text], text)); err == nil {
		return is
	}
	if text != "" {
		a.Log.Warn("an environment variable is ignored; it must be true or false", "variable", variable)
	}
	return otherwise
}
