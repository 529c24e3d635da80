package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/sql/db"
)

func newMigrate(a *command.App) *cobra.Command {
	var dryRun, status bool
	cmd := &cobra.Command{
		Use:   "migrate [OPTIONS]",
		Short: "Makes the database ready for this program",
		Long: `Makes the database ready for this program. An empty database gets the whole schema,
which the Python components can use too; one made by them gets an additional schema,
scheduler_go, and is otherwise left unchanged. A second run changes nothing.`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	cmd.Flags().BoolVar(&status, "status", false, "print what the database has, and change nothing")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "status")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		dsn, err := a.DSN(cmd)
		if err != nil {
			return err
		}
		return a.WithStore(cmd, func(ctx context.Context, _ *db.Store) error {
			if status {
				s, err := db.MigrateStatus(ctx, dsn)
				if err != nil {
					return err
				}
				return a.Print(describeStatus(s))
			}
			report, err := db.Migrate(ctx, dsn, db.MigrateOptions{DryRun: dryRun, Logger: a.Log, Shares: a.Config.Shares})
			if err != nil {
				return err
			}
			return a.Print(describeReport(report, dryRun))
		})
	})
	return cmd
}

func describeStatus(s db.Status) string {
	var b strings.Builder
	if s.Empty() {
		fmt.Fprintf(&b, "%s:\n  is empty\n", s.Database)
	} else {
		fmt.Fprintf(&b, "%s:\n  scheduler schema at version %d\n", s.Database, s.PeerVersion)
	}
	for _, name := range s.Applied {
		fmt.Fprintf(&b, "  applied %s\n", name)
	}
	for _, name := range s.Pending {
		fmt.Fprintf(&b, "  lacks %s\n", name)
	}
	return b.String()
}

func describeReport(r db.MigrateReport, dryRun bool) string {
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
		fmt.Fprintf(&b, "  scheduler schema, version %d: %screated\n", db.PeerVersion, tense)
	}
	for _, name := range r.Applied {
		fmt.Fprintf(&b, "  %s: %sapplied\n", name, tense)
	}
	return b.String()
}
