package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/tracing"
	"swh-scheduler/sql"
)

// app is what all subcommands share.
type app struct {
	stdout, stderr io.Writer
	logLines       *logLines // to stderr
	styled         bool      // stdout is a terminal that takes styles

	options globalOptions
	config  *config.Config // of commands that are configured
	level   *slog.LevelVar // may be changed while running
	log     *slog.Logger   // to logLines
	metrics *prometheus.Registry
	tracer  *tracing.Tracer // of a daemon; nil where traces are off

	starting bool // a daemon, whose database has answered
}

func newApp(stdout, stderr io.Writer) *app {
	a := &app{stdout: stdout, stderr: stderr, logLines: &logLines{stderr: stderr},
		level: new(slog.LevelVar), metrics: prometheus.NewRegistry()}
	a.log = slog.New(slog.NewTextHandler(a.logLines, &slog.HandlerOptions{Level: a.level}))
	a.styled = isTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return a
}

// configured makes the function of a command that reads the configuration.
func (a *app) configured(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return work(func(cmd *cobra.Command, args []string) error {
		if err := a.loadConfig(cmd); err != nil {
			return err
		}
		return do(cmd, args)
	})
}

// loadConfig reads the configuration of this command line.
func (a *app) loadConfig(cmd *cobra.Command) error {
	path, fromFlag := a.options.configFile, true
	if path == "" {
		path, fromFlag = os.Getenv("SWH_CONFIG_FILENAME"), false
	}
	a.config = config.Default()
	if path != "" {
		c, warnings, err := config.Load(path)
		for _, w := range warnings {
			a.log.Warn(w.String())
		}
		switch {
		case errors.Is(err, os.ErrNotExist) && fromFlag:
			return usagef(cmd.Root(), "Invalid value for '--config-file' / '-C': File '%s' does not exist.", path)
		case errors.Is(err, os.ErrNotExist):
			return usagef(cmd.Root(), "The file '%s', named by SWH_CONFIG_FILENAME, does not exist.", path)
		case err != nil:
			return err
		}
		a.config = c
	}
	switch {
	case a.options.database != "":
		a.config.UseDatabase(a.options.database)
	case a.options.url != "":
		a.config.UseURL(a.options.url)
	}
	return nil
}

// openStore opens the database that the configuration names; it connects when
// first used.
func (a *app) openStore(ctx context.Context, cmd *cobra.Command) (*sql.Store, error) {
	dsn, err := a.dsn(cmd)
	if err != nil {
		return nil, err
	}
	store, err := sql.Open(ctx, dsn, sql.Options{Command: cmd.Name(), MaxConns: int32(a.config.Scheduler.MaxPoolConns)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.dsnSource(), err)
	}
	return store, nil
}

// dsnSource says where the address of the database is from.
func (a *app) dsnSource() string {
	if a.options.database != "" {
		return "--database"
	}
	return a.config.File + ": scheduler.db"
}

// urlSource says where the address of the RPC server is from.
func (a *app) urlSource() string {
	if a.options.url != "" {
		return "--url"
	}
	return a.config.File + ": scheduler.url"
}

// dsn is the address of the database.
func (a *app) dsn(cmd *cobra.Command) (string, error) {
	s := a.config.Scheduler
	switch {
	case s == config.Scheduler{}:
		return "", usagef(cmd, "missing 'scheduler' configuration (name a file with SWH_CONFIG_FILENAME or --config-file, or a database with --database)")
	case s.Cls == "":
		return "", a.config.Missing("scheduler.cls", "postgresql, local or remote")
	case s.Cls == config.Remote:
		return "", fmt.Errorf("%s works on a database, and the configuration names an RPC server (scheduler.cls is remote); name the database with --database", cmd.CommandPath())
	case s.DB == "":
		return "", a.config.Missing("scheduler.db", "the address of a database, such as postgresql://swh@db.example/scheduler")
	}
	return string(s.DB), nil
}

// broker is the configured message broker.
func (a *app) broker() (celery.Broker, error) {
	broker, err := celery.ParseBroker(string(a.config.Celery.TaskBroker))
	if err != nil {
		return broker, fmt.Errorf("celery.task_broker: %w", err)
	}
	return broker, nil
}

// withStore runs a command that asks the database something and ends.
func (a *app) withStore(cmd *cobra.Command, do func(ctx context.Context, store *sql.Store) error) error {
	ctx := cmd.Context()
	store, err := a.openStore(ctx, cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	return describe(store, do(ctx, store))
}

// describe puts the cause of a database's error into one line that says what to
// do about it.
func describe(store *sql.Store, err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%s is not reachable (is it running, and is its address right?): %w", serverName(store), oneLine{err})
	}
	const undefinedTable, undefinedFunction = "42P01", "42883"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == undefinedTable || pg.Code == undefinedFunction) {
		return fmt.Errorf("%s lacks what this command needs; run \"swh-scheduler migrate\": %w", serverName(store), err)
	}
	return err
}

// serverName names a store's server and database, without password.
func serverName(store *sql.Store) string {
	c := store.Pool().Config().ConnConfig
	return fmt.Sprintf("PostgreSQL (host=%s port=%d dbname=%s user=%s)", c.Host, c.Port, c.Database, c.User)
}

// oneLine is an error whose text is one line, with nothing said twice: pgx
// writes a line for each address and each way to connect to it.
type oneLine struct{ error }

func (e oneLine) Unwrap() error { return e.error }

func (e oneLine) Error() string {
	var parts []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}

// print writes a command's result.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}

// bold is text in bold on a terminal.
func (a *app) bold(text string) string {
	if !a.styled {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}
