// Package command has what all commands share: streams, the configuration, opening the
// services that it names, and command lines as click reads them for the Python scheduler.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/send"
	"swh-scheduler/internal/sentry"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// App holds the streams, options and configuration of one run of the program.
type App struct {
	Version        string
	Stdout, Stderr io.Writer // on a terminal they escape control sequences
	Styled         bool      // Stdout is a terminal that takes styles

	Globals Globals
	Config  *config.Config // of commands made by Configured
	Level   *slog.LevelVar // a daemon changes it while it runs
	Log     *slog.Logger   // to Stderr, above a progress bar

	configRead os.FileInfo // the configuration's file just before it was last read
	logLines   *logLines
	logFields  []string // names of Python's fields in a JSON log; nil for slog's own fields
	sentry     *sentry.Reporter
}

// New makes an App without a configuration. release is the program's version; "" between releases.
func New(release string, stdout, stderr io.Writer) *App {
	stdout, stderr = toScreen(stdout), toScreen(stderr)
	a := &App{Version: version(release), Stdout: stdout, Stderr: stderr, logLines: &logLines{stderr: stderr}, sentry: new(sentry.Reporter), Level: new(slog.LevelVar)}
	a.Log = slog.New(slog.NewTextHandler(a.logLines, &slog.HandlerOptions{Level: a.Level}))
	a.Styled = isTerminal(stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return a
}

// Configured makes the function of a command that needs the configuration.
func (a *App) Configured(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return Work(func(cmd *cobra.Command, args []string) error {
		if err := a.LoadConfig(cmd); err != nil {
			return err
		}
		return do(cmd, args)
	})
}

func (a *App) LoadConfig(cmd *cobra.Command) error {
	c, warnings, err := a.readConfig(cmd)
	for _, w := range warnings {
		a.Log.Warn(w.String())
	}
	if err != nil {
		return err
	}
	a.Config = c
	return a.reportErrors(cmd, c.Sentry)
}

// readConfig reads the configuration file and applies the options of the command line to it.
func (a *App) readConfig(cmd *cobra.Command) (c *config.Config, warnings []config.Warning, err error) {
	path, fromFlag := a.Globals.configFile, true
	if path == "" {
		path, fromFlag = os.Getenv("SWH_CONFIG_FILENAME"), false
	}
	a.configRead, _ = os.Stat(path) // before it is read: a later change differs
	type loaded struct {
		c        *config.Config
		warnings []config.Warning
	}
	read, err := Await(cmd.Context(), func() (l loaded, err error) { // path may be a pipe
		l.c, l.warnings, err = config.Load(path, a.Globals.options...)
		return l, err
	})
	c, warnings = read.c, read.warnings
	if e, ok := errors.AsType[*config.Error](err); ok && e.Unread {
		if fromFlag {
			return nil, warnings, Usagef(cmd.Root(), "Invalid value for '--config-file' / '-C': File '%s' %s.", path, e.Problem)
		}
		return nil, warnings, Usagef(cmd.Root(), "The file '%s', named by SWH_CONFIG_FILENAME, %s.", path, e.Problem)
	}
	if err != nil {
		return nil, warnings, err
	}
	switch {
	case a.Globals.database != "":
		c.UseDatabase(a.Globals.database)
	case a.Globals.url != "":
		c.UseURL(a.Globals.url)
	}
	return c, warnings, nil
}

// Reread returns a function that returns the changed configuration, or nil if the file is unchanged. The function
// reads a changed file only when two calls in a row find the same state: a file may be half written.
func (a *App) Reread(cmd *cobra.Command) func() (*config.Config, error) {
	var last os.FileInfo
	applied := a.configRead
	same := func(a, b os.FileInfo) bool {
		return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	}
	return func() (*config.Config, error) {
		if a.Config.File == "" {
			return nil, nil
		}
		now, err := os.Stat(a.Config.File)
		if err != nil {
			return nil, err
		}
		settled := same(now, last)
		last = now
		if !settled || same(now, applied) {
			return nil, nil
		}
		applied = now
		c, _, err := a.readConfig(cmd)
		return c, err
	}
}

// readsOnly is the annotation of commands that change nothing, unless one of the flags that it names is set.
const readsOnly = "reads only"

// ReadOnly makes commands, named without the root, use the replica, if the configuration has one.
func ReadOnly(root *cobra.Command, names ...string) {
	for _, name := range names {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil {
			panic(err) // unreachable unless the command was renamed
		}
		cmd.Annotations = map[string]string{readsOnly: ""}
	}
}

// ReadOnlyWithout makes a command, named without the root, use the replica if none of the flags is set.
func ReadOnlyWithout(root *cobra.Command, name string, flags ...string) {
	ReadOnly(root, name)
	cmd, _, _ := root.Find(strings.Fields(name))
	cmd.Annotations[readsOnly] = strings.Join(flags, " ")
}

// reads reports whether a command changes nothing with its flags.
func reads(cmd *cobra.Command) bool {
	flags, ok := cmd.Annotations[readsOnly]
	return ok && !slices.ContainsFunc(strings.Fields(flags), cmd.Flags().Changed)
}

// OpenStore opens the configured database. A command that only reads opens the replica, if there is one. The store
// connects when first used.
func (a *App) OpenStore(ctx context.Context, cmd *cobra.Command) (*db.Store, error) {
	return a.openStore(ctx, cmd, reads(cmd), postgres.Options{MaxConns: int32(a.Config.Scheduler.MaxPoolConns)})
}

// OpenPages opens the database, or its replica, for the dashboard's pages, with a small pool and a time limit for
// statements.
func (a *App) OpenPages(ctx context.Context, cmd *cobra.Command, timeout time.Duration) (*db.Store, error) {
	return a.openStore(ctx, cmd, true, postgres.Options{MaxConns: 6, StatementTimeout: timeout})
}

func (a *App) openStore(ctx context.Context, cmd *cobra.Command, replica bool, o postgres.Options) (*db.Store, error) {
	var dsn string
	var err error
	if a.Config.Scheduler.Cls == config.Remote {
		dsn, o.Proxy, err = a.throughServer()
	} else {
		dsn, err = a.DSN(cmd)
		o.Direct = string(a.Config.Database.Direct)
	}
	if err != nil {
		return nil, err
	}
	o.Command = programName(cmd)
	if address := a.Config.Database.Replica; address != "" && replica {
		dsn, o.Direct, o.Proxy = string(address), "", nil
	}
	store, err := db.Open(ctx, dsn, o)
	if err != nil {
		return nil, a.wrong("--database", a.Globals.database, "scheduler.db", err)
	}
	return store.With(db.Rules{Route: a.Config.Celery.Route(), Hosters: a.Config.Hosters, UnknownHints: a.Config.Hints.Unknown.Model()}), nil
}

// WithPriority is the name of the option for a runner of tasks with priority.
const WithPriority = "with-priority"

// programName returns the name of a command in the database's list of connections. Runners with and without priority
// have different names.
func programName(cmd *cobra.Command) string {
	name := cmd.Name()
	if f := cmd.Flags().Lookup(WithPriority); f != nil && f.Value.String() == "true" {
		name += " --" + WithPriority
	}
	return name
}

// throughServer returns the connection to the database through the configured RPC server. The server replaces the
// DSN's user and database.
func (a *App) throughServer() (dsn string, way *postgres.Proxy, err error) {
	if a.Config.Scheduler.URL == "" {
		return "", nil, a.Config.Missing("scheduler.url", "the address of an RPC server, such as http://scheduler.example:5008/")
	}
	address, err := door.Parse(string(a.Config.Scheduler.URL))
	if err != nil {
		return "", nil, a.wrong("--url", a.Globals.url, "scheduler.url", err)
	}
	if address, err = address.With(a.shows()); err != nil {
		return "", nil, a.Config.Wrong("scheduler.session_kwargs", err)
	}
	server := url.URL{Scheme: "postgresql", User: url.User("door"), Host: net.JoinHostPort(address.Host(), address.Port()), Path: "door", RawQuery: "sslmode=disable"}
	return server.String(), &postgres.Proxy{Name: "the database of RPC server " + address.String(), Dial: address.Dial}, nil
}

// Migration returns the options of a migration for the configuration.
func (a *App) Migration() migrate.Options {
	return migrate.Options{Logger: a.Log, Shares: a.Config.Shares, Hosters: a.Config.Hosters, Policies: a.Config.SchedulingPolicy}
}

// Daemon returns the options of a daemon that runs as cmd.
func (a *App) Daemon(cmd *cobra.Command) process.Options {
	return process.Options{
		Command: cmd.Name(), Version: a.Version, MetricsAddr: cmp.Or(a.Globals.metricsAddr, a.Config.Metrics.Addr),
		Config: a.Config, Log: a.Log, Level: a.Level, Metrics: prometheus.NewRegistry(),
		OpenStore: func(ctx context.Context) (*db.Store, error) { return a.OpenStore(ctx, cmd) },
	}
}

// Sending returns the options of a command that sends messages.
func (a *App) Sending(cmd *cobra.Command) send.Options {
	return send.Options{Command: cmd.Name(), Config: a.Config, Log: a.Log, Metrics: prometheus.NewRegistry()}
}

// wrong returns the error of an unusable value: of option if the value given is not "", else of key.
func (a *App) wrong(option, given, key string, err error) error {
	if given != "" {
		return fmt.Errorf("%s: %w", option, err)
	}
	return a.Config.Wrong(key, err)
}

func (a *App) DSN(cmd *cobra.Command) (string, error) {
	s := a.Config.Scheduler
	switch {
	case s == config.Scheduler{}:
		return "", Usagef(cmd, "missing 'scheduler' configuration (name a file with SWH_CONFIG_FILENAME or --config-file, or a database with --database)")
	case s.Cls == "":
		return "", a.Config.Missing("scheduler.cls", "postgresql, local or remote")
	case s.Cls == config.Remote:
		return "", fmt.Errorf("%s works on a database, and the configuration names an RPC server (scheduler.cls is remote); name the database with --database", cmd.CommandPath())
	case s.DB == "":
		return "", a.Config.Missing("scheduler.db", "the address of a database, such as postgresql://swh@db.example/scheduler")
	}
	return string(s.DB), nil
}

// WithStore runs do with the configured database.
func (a *App) WithStore(cmd *cobra.Command, do func(ctx context.Context, store *db.Store) error) error {
	ctx := cmd.Context()
	store, err := a.OpenStore(ctx, cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	return process.Describe(store, do(ctx, store))
}

// WithScheduler runs do with the configured scheduler.
func (a *App) WithScheduler(cmd *cobra.Command, do func(ctx context.Context, b Scheduler) error) error {
	if a.Config.Scheduler.Cls != config.Remote {
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error { return do(ctx, Database{Store: store}) })
	}
	client, err := a.OpenRPC()
	if err != nil {
		return err
	}
	defer client.Close()
	return do(cmd.Context(), Remote{Client: client})
}

// OpenRPC returns a client of the configured RPC server. It connects when first used.
func (a *App) OpenRPC() (*rpc.Client, error) {
	if a.Config.Scheduler.URL == "" {
		return nil, a.Config.Missing("scheduler.url", "the address of an RPC server, such as http://scheduler.example:5008/")
	}
	if _, err := door.ServerURL(string(a.Config.Scheduler.URL)); err != nil {
		return nil, a.wrong("--url", a.Globals.url, "scheduler.url", err)
	}
	client, err := rpc.NewClientWith(string(a.Config.Scheduler.URL), a.shows())
	if err != nil {
		return nil, a.Config.Wrong("scheduler.session_kwargs", err)
	}
	return client, nil
}

// shows returns the credentials of scheduler.session_kwargs.
func (a *App) shows() door.Credentials {
	s := a.Config.Scheduler.SessionKwargs
	file := func(path string) string {
		if path == "" {
			return ""
		}
		return a.Config.Resolve(path)
	}
	return door.Credentials{Certificate: file(s.Cert), Key: file(s.Key), Authorities: file(s.Verify), Authorization: string(s.Authorization)}
}

// OnScheduler makes the function of a command that uses the configured scheduler.
func (a *App) OnScheduler(do func(ctx context.Context, cmd *cobra.Command, b Scheduler, args []string) error) func(*cobra.Command, []string) error {
	return a.Configured(func(cmd *cobra.Command, args []string) error {
		return a.WithScheduler(cmd, func(ctx context.Context, b Scheduler) error { return do(ctx, cmd, b, args) })
	})
}

// OnStore makes the function of a command that uses the configured database.
func (a *App) OnStore(do func(ctx context.Context, cmd *cobra.Command, store *db.Store, args []string) error) func(*cobra.Command, []string) error {
	return a.Configured(func(cmd *cobra.Command, args []string) error {
		return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error { return do(ctx, cmd, store, args) })
	})
}
