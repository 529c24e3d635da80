package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/sql"
)

func newMigrate(a *app) *cobra.Command {
	var dryRun, status bool
	cmd := &cobra.Command{
		Use:   "migrate [OPTIONS]",
		Short: "Makes the database ready for this program",
		Long: `Makes the database ready for this program. An empty one gets the whole schema,
which the Python components can use too; one that they made gets a schema of our
own, scheduler_go, and is otherwise left as it is. Run twice, it does nothing.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().BoolVar(&status, "status", false, "say what the database holds, and change nothing")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "status")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		dsn, err := a.dsn(cmd)
		if err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *sql.Store) error {
			if status {
				s, err := sql.MigrateStatus(ctx, dsn)
				if err != nil {
					return err
				}
				return a.print(describeStatus(s))
			}
			report, err := sql.Migrate(ctx, dsn, sql.MigrateOptions{DryRun: dryRun, Logger: a.log, Shares: a.config.Shares})
			if err != nil {
				return err
			}
			return a.print(describeReport(report, dryRun))
		})
	})
	return cmd
}

func describeStatus(s sql.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", s.Database)
	if s.Empty() {
		fmt.Fprintln(&b, "  is empty")
	} else {
		fmt.Fprintf(&b, "  scheduler schema at version %d\n", s.PeerVersion)
	}
	for _, name := range s.Applied {
		fmt.Fprintf(&b, "  applied %s\n", name)
	}
	for _, name := range s.Pending {
		fmt.Fprintf(&b, "  lacks %s\n", name)
	}
	return b.String()
}

func describeReport(r sql.MigrateReport, dryRun bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", r.Database)
	tense := "" // done, or only foretold
	if dryRun {
		tense = "would be "
	}
	if r.Nothing() {
		fmt.Fprintln(&b, "  nothing to do")
	}
	if r.CreatedBase {
		fmt.Fprintf(&b, "  scheduler schema, version %d: %screated\n", sql.PeerVersion, tense)
	}
	for _, name := range r.Applied {
		fmt.Fprintf(&b, "  %s: %sapplied\n", name, tense)
	}
	return b.String()
}
