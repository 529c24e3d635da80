// Package peerdb has the commands of "swh db" for the scheduler's database, as the archive's images and scripts
// call them.
package peerdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/migrate"
)

// backend is the Python tools' name of the scheduler's database.
const backend = "scheduler:postgresql"

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db [OPTIONS] COMMAND [ARGS]...",
		Short: "The database tools of \"swh db\", for the scheduler's database",
		Long: `The database tools of "swh db", for the scheduler's database only: MODULE is scheduler, or
scheduler:postgresql. The archive's images and charts call these commands. By hand, use
migrate, which does more.`,
	}
	cmd.AddCommand(newCreate(a), newInitAdmin(a), newInit(a), newUpgrade(a), newVersion(a), newList(a))
	return cmd
}

// onDatabase makes the function of a command that works on the database of the option --dbname, else of the
// configuration.
func onDatabase(a *command.App, cmd *cobra.Command, do func(ctx context.Context, dsn string) error) {
	dbname, module := "", "MODULE"
	if cmd.Name() == "version" || cmd.Name() == "list" {
		module = "[MODULE]"
	} else {
		cmd.Flags().StringVarP(&dbname, "dbname", "d", "", "`DSN` or name of a database, instead of the configured one")
		cmd.Flags().StringVar(&dbname, "db-name", "", "another name of --dbname")
		cmd.Flags().Lookup("db-name").Hidden = true
	}
	cmd.Flags().BoolP("module-is-path", "p", false, "MODULE is a path in the configuration; scheduler is the only one")
	cmd.Flags().BoolP("all", "a", false, "all databases of the module; the scheduler has one")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := command.Args(module)(cmd, args); err != nil {
			return err
		}
		if len(args) > 0 && args[0] != "scheduler" && args[0] != backend {
			return command.Usagef(cmd, "Invalid value for 'MODULE': this program has only the module scheduler, not '%s'.", args[0])
		}
		return nil
	}
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		switch {
		case dbname == "":
		case strings.ContainsAny(dbname, "=/"):
			a.Config.UseDatabase(dbname)
		default:
			a.Config.UseDatabase("dbname=" + dbname)
		}
		dsn, err := a.DSN(cmd)
		if err != nil {
			return err
		}
		if direct := string(a.Config.Database.Direct); direct != "" && dbname == "" {
			dsn = direct
		}
		return do(cmd.Context(), dsn)
	})
}

func newCreate(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create [OPTIONS] MODULE",
		Short: "Create the database",
		Long:  "Create the database, by a connection to the database template1 of the same server. The user\nneeds the right to create databases.",
	}
	template := cmd.Flags().StringP("template", "T", "template1", "`DATABASE` that it is copied from")
	onDatabase(a, cmd, func(ctx context.Context, dsn string) error {
		database, err := migrate.CreateDatabase(ctx, dsn, *template)
		if err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("%s Created database %s\n", backend, a.Line(database)))
	})
	return cmd
}

func newInitAdmin(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init-admin [OPTIONS] MODULE",
		Short: "Create the extensions that the schema needs",
		Long:  "Create the extensions that the schema needs (uuid-ossp). That takes a superuser, or the right to\ncreate in the database.",
	}
	onDatabase(a, cmd, func(ctx context.Context, dsn string) error {
		database, err := migrate.CreateExtensions(ctx, dsn)
		if err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("%s Database %s initialized (admin)\n", backend, a.Line(database)))
	})
	return cmd
}

func newInit(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [OPTIONS] MODULE",
		Short: "Create the schema in an empty database",
		Long: `Create the schema of the Python scheduler and, as migrate does, the schema of this program in an
empty database. A database that has a schema is left unchanged.`,
	}
	flavor := cmd.Flags().String("flavor", "", "`FLAVOR` of the database; the scheduler has none")
	onDatabase(a, cmd, func(ctx context.Context, dsn string) error {
		status, err := migrate.ReadStatus(ctx, dsn)
		if err != nil && status.PythonSchemaVersion == 0 {
			return err
		}
		done, version := "exists", status.PythonSchemaVersion
		if status.Empty() {
			if _, err := migrate.Run(ctx, dsn, a.Migration()); err != nil {
				return err
			}
			done, version = "initialized", migrate.PythonSchemaVersion
		}
		text := fmt.Sprintf("%s Database %s at version %d\n", backend, done, version)
		if version < migrate.PythonSchemaVersion {
			text += fmt.Sprintf("%s Current version is %d; migration required\n", backend, migrate.PythonSchemaVersion)
		}
		if *flavor != "" {
			text += fmt.Sprintf("WARNING requested flavor '%s' != recorded flavor 'None'\n", a.Line(*flavor))
		}
		return a.Print(text)
	})
	return cmd
}

func newUpgrade(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade [OPTIONS] MODULE",
		Short: "Bring the database up to date",
		Long: `Bring the database up to date with this program, as migrate does. This program can't upgrade the
Python scheduler's schema: before version 38, run the Python scheduler's own "swh db upgrade".`,
	}
	to := cmd.Flags().Int("to-version", 0, "upgrade the Python scheduler's schema to `VERSION`")
	var interactive bool
	command.Pair(cmd.Flags(), &interactive, "interactive", "", "non-interactive", "ignored: no questions are asked", "ignored: no questions are asked")
	onDatabase(a, cmd, func(ctx context.Context, dsn string) error {
		if *to > migrate.PythonSchemaVersion {
			return command.Usagef(cmd, "The target version %d is larger than the current version %d of the datastore backend %s", *to, migrate.PythonSchemaVersion, backend)
		}
		status, err := migrate.ReadStatus(ctx, dsn)
		switch {
		case errors.Is(err, migrate.ErrUnsupported) && status.PythonSchemaVersion > 0 && status.PythonSchemaVersion < migrate.PythonSchemaVersion:
			return fmt.Errorf("%w (with the Python scheduler's image: this program has no such upgrades)", err)
		case err != nil:
			return err
		case status.Empty():
			return fmt.Errorf("%s is empty: \"swh db init scheduler\" makes its schema", status.Database)
		}
		report, err := migrate.Run(ctx, dsn, a.Migration())
		if err != nil {
			return err
		}
		if len(report.Applied) > 0 {
			a.Log.Info("applied migrations of this program", "migrations", strings.Join(report.Applied, ", "))
		}
		return a.Print(fmt.Sprintf("No migration needed for '%s': the current version is %d\n", backend, status.PythonSchemaVersion))
	})
	return cmd
}

func newVersion(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [OPTIONS] [MODULE]",
		Short: "Print the version of the database",
		Long: `Print the version of the Python scheduler's schema in the database, and the version that this
program needs. If the database has a later version that this program can work with, both are equal.`,
	}
	history := cmd.Flags().Bool("history", false, "print all versions that the database has had")
	onDatabase(a, cmd, func(ctx context.Context, dsn string) error {
		peer, err := migrate.ReadPythonSchema(ctx, dsn)
		if err != nil {
			return err
		}
		var b strings.Builder
		b.WriteString("\n")
		if !peer.HasModule {
			fmt.Fprintf(&b, "WARNING the database for %s does not have a dbmodule table.\n", backend)
			peer.Module = backend
		}
		fmt.Fprintf(&b, "module: %s\n", a.Line(peer.Module))
		if !strings.Contains(peer.Module, ":") {
			fmt.Fprintf(&b, "The module registered in the database (%s) needs to be updated;\nYou should run 'swh db upgrade'\n", a.Line(peer.Module))
		}
		fmt.Fprintf(&b, "current code version: %d\n", peer.CodeVersion)
		switch {
		case *history:
			for _, v := range peer.Versions {
				fmt.Fprintf(&b, "%d [%s] %s\n", v.Number, pytext.Datetime(v.Release.UTC()), a.Line(v.Description))
			}
		case len(peer.Versions) == 0:
			b.WriteString("version: None\n")
		default:
			fmt.Fprintf(&b, "version: %d\n", peer.Versions[0].Number)
		}
		return a.Print(b.String())
	})
	return cmd
}

func newList(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [OPTIONS] [MODULE]",
		Short: "List the databases of the configuration",
		Long:  "List the databases of the configuration that this program can use, without passwords.",
	}
	onDatabase(a, cmd, func(_ context.Context, dsn string) error {
		database, err := migrate.NameOf(dsn)
		if err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("scheduler %s %s\n", backend, a.Line(database)))
	})
	return cmd
}
