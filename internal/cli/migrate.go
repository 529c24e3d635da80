package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

func newMigrate(a *command.App) *cobra.Command {
	var dryRun, status, remove, yes, rebuild, shorter, door, noDoor, grants, noGrants bool
	cmd := &cobra.Command{
		Use:   "migrate [OPTIONS]",
		Short: "Makes the database ready for this program",
		Long: `Makes the database ready for this program. It creates the whole schema in an empty
database; the Python components can use that schema too. To a database of the Python
components it adds the schema scheduler_go, and triggers and indexes on their tables. A
second run changes nothing.

With --rebuild-candidates it also rebuilds the copy of the origins from which visits are
picked. It does that in short steps, while the daemons keep running. Use it after triggers
were off, as in a restore with --disable-triggers, or on a logical replica.

With --shorter-cooldowns it also makes indexes for picking visits with cooldowns shorter than
the default ones, by commands, RPC clients and first visits. It always makes these indexes if
scheduling_policy has such cooldowns. Each visit costs more writes with these indexes.

With --door it also opens the door: RPC servers then connect daemons with "scheduler: {cls:
remote}" to the database. It makes a role for these daemons, which has the rights that daemons
need and no others, and a password. Only the owner of the database and the role of --grants for
rpc-serve can read the password. RPC servers find the role without a restart. A second run
makes a new password. A user who may not make roles gets the statements that somebody with that
right should run, and an error. --no-door ends the sessions of the role and drops it.

With --grants it also makes a role for each daemon, scheduler_go_<daemon>__<database>. The role
has the rights that the daemon needs and no others, and can't log in. Grant it to the daemon's
user: grant scheduler_go_start_listener__scheduler to listener. Each later migrate adds the
roles' rights on new tables. --no-grants drops the roles.

With --remove it removes the schema scheduler_go, and this program's triggers and indexes on
the tables of the Python components. These tables keep their rows, and the Python components
can run meanwhile. The command refuses if work would be lost, unless --yes is given.`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	cmd.Flags().BoolVar(&status, "status", false, "print what the database has, and change nothing")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove what this program added")
	cmd.Flags().BoolVar(&yes, "yes", false, "remove it even if work is lost")
	cmd.Flags().BoolVar(&rebuild, "rebuild-candidates", false, "rebuild the copy of the origins")
	cmd.Flags().BoolVar(&shorter, "shorter-cooldowns", false, "make indexes for cooldowns shorter than the default ones")
	cmd.Flags().BoolVar(&door, "door", false, "open the RPC servers' door to the database")
	cmd.Flags().BoolVar(&noDoor, "no-door", false, "close the RPC servers' door to the database")
	cmd.Flags().BoolVar(&grants, "grants", false, "make a role with the rights of each daemon")
	cmd.Flags().BoolVar(&noGrants, "no-grants", false, "drop the roles with the rights of daemons")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		if err := command.Exclusive(cmd, "grants", "no-grants"); err != nil {
			return err
		}
		for _, beside := range []string{"dry-run", "remove"} {
			if err := command.Exclusive(cmd, beside, "status", "rebuild-candidates", "shorter-cooldowns", "door", "no-door", "grants", "no-grants"); err != nil {
				return err
			}
		}
		dsn, err := a.DSN(cmd)
		if err != nil {
			return err
		}
		dsn = cmp.Or(string(a.Config.Database.Direct), dsn) // a migration takes locks of a session, which a pooler does not keep
		if yes && !remove {
			return command.Usagef(cmd, "--yes needs --remove")
		}
		return a.WithStore(cmd, func(ctx context.Context, _ *db.Store) error {
			if remove {
				removal, err := migrate.Remove(ctx, dsn, migrate.RemoveOptions{DryRun: dryRun, Lose: yes, Logger: a.Log})
				if errors.Is(err, migrate.ErrWouldLose) {
					return fmt.Errorf("%w; stop the daemons after they have delivered it, or add --yes", err)
				}
				if err != nil {
					return err
				}
				return a.Print(describeRemoval(removal, dryRun, a.LogsToTerminal()))
			}
			if status {
				s, err := migrate.ReadStatus(ctx, dsn)
				if err != nil {
					return err
				}
				door, err := migrate.ReadDoor(ctx, dsn)
				if err != nil && !errors.Is(err, migrate.ErrBadDoor) {
					return err
				}
				return a.Print(describeStatus(s) + describeDoor(door, err))
			}
			action := migrate.DoorKept
			switch {
			case door:
				action = migrate.DoorOpened
			case noDoor:
				action = migrate.DoorClosed
			}
			keep := migrate.GrantsKept
			switch {
			case grants:
				keep = migrate.GrantsMade
			case noGrants:
				keep = migrate.GrantsDropped
			}
			o := a.Migration()
			o.DryRun, o.Rebuild, o.ShorterCooldowns, o.Door, o.Grants = dryRun, rebuild, shorter, action, keep
			report, err := migrate.Run(ctx, dsn, o)
			if err != nil {
				return err
			}
			return a.Print(describeReport(report, dryRun, a.LogsToTerminal()))
		})
	})
	return cmd
}

func describeStatus(s migrate.Status) string {
	var b strings.Builder
	if s.Empty() {
		fmt.Fprintf(&b, "%s:\n  is empty\n", s.Database)
	} else {
		fmt.Fprintf(&b, "%s:\n  scheduler schema at version %d\n", s.Database, s.PythonSchemaVersion)
	}
	for _, name := range s.Applied {
		fmt.Fprintf(&b, "  applied %s\n", name)
	}
	for _, name := range s.Pending {
		fmt.Fprintf(&b, "  lacks %s\n", name)
	}
	for _, number := range s.Newer {
		fmt.Fprintf(&b, "  applied migration %d of a newer swh-scheduler, with which this one can work\n", number)
	}
	return b.String()
}

// describeDoor describes a door, or the error that keeps it from being read.
func describeDoor(d migrate.DoorStatus, err error) string {
	text := command.DoorState(d)
	switch {
	case err != nil:
		text = pytext.OneLine(err).Error()
	case d.Wrong != nil:
		text += ", which can't be used: " + pytext.OneLine(d.Wrong).Error()
	}
	return "  door: " + text + "\n"
}

// describeRemoval describes what was removed: only how much, if the log has shown each part.
func describeRemoval(r migrate.Removal, dryRun, logged bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", r.Database)
	removed, lost := "removed", "lost"
	if dryRun {
		removed, lost = "would be removed", "would be lost"
	}
	if len(r.Removed) == 0 {
		fmt.Fprintln(&b, "  nothing to remove")
	}
	if n := len(r.Removed); n > 0 && logged && !dryRun {
		fmt.Fprintf(&b, "  %s: %s\n", model.Count(n, "part", "parts"), removed)
		r.Removed = nil
	}
	for _, what := range r.Removed {
		fmt.Fprintf(&b, "  %s: %s\n", what, removed)
	}
	for _, what := range r.Lost {
		fmt.Fprintf(&b, "  %s: %s\n", lost, what)
	}
	return b.String()
}

// describeReport describes what was done: only how many migrations, if the log has shown each.
func describeReport(r migrate.Report, dryRun, logged bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", r.Database)
	tense := ""
	if dryRun {
		tense = "would be "
	}
	if r.Nothing() {
		fmt.Fprintln(&b, "  nothing to do")
	}
	if r.CreatedBase {
		fmt.Fprintf(&b, "  scheduler schema, version %d: %screated\n", migrate.PythonSchemaVersion, tense)
	}
	if n := len(r.Applied); n > 0 && logged && !dryRun {
		fmt.Fprintf(&b, "  %s: applied\n", model.Count(n, "migration", "migrations"))
		r.Applied = nil
	}
	for _, name := range r.Applied {
		fmt.Fprintf(&b, "  %s: %sapplied\n", name, tense)
	}
	for _, index := range r.Dropped {
		fmt.Fprintf(&b, "  %s, an index that an interrupted run left: %sdropped\n", index, tense)
	}
	if r.Rebuilt {
		fmt.Fprintf(&b, "  candidates: %sbuilt anew\n", tense)
	}
	for _, index := range r.Indexes {
		fmt.Fprintf(&b, "  %s: %sbuilt\n", index, tense)
	}
	switch {
	case r.DoorRole != "" && r.Door == migrate.DoorOpened:
		fmt.Fprintf(&b, "  door: open, as the role %s\n", r.DoorRole)
	case r.DoorRole != "" && r.Door == migrate.DoorClosed:
		fmt.Fprintf(&b, "  door: closed, the role %s dropped\n", r.DoorRole)
	}
	done := "made"
	if r.Grants == migrate.GrantsDropped {
		done = "dropped"
	}
	for _, role := range r.GrantRoles {
		fmt.Fprintf(&b, "  role %s: %s\n", role, done)
	}
	return b.String()
}
