package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/journal"
	"swh-scheduler/sql"
)

func newJournalClient(a *app) *cobra.Command {
	var stopAfterObjects int64
	cmd := &cobra.Command{
		Use:   "journal-client [OPTIONS]",
		Short: "Keeps the origin visits stats up to date from a Kafka journal",
		Long: `Keeps the origin visits stats up to date from a Kafka journal: it reads how visits
ended and records what the scheduler needs to know of it.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().Int64VarP(&stopAfterObjects, "stop-after-objects", "m", 0, "most records to read; 0 goes on for ever")

	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		if stopAfterObjects < 0 {
			return usagef(cmd, "Invalid value for '--stop-after-objects' / '-m': %d is negative.", stopAfterObjects)
		}
		c := a.config.Journal
		switch {
		case len(c.Brokers) == 0:
			return a.config.Missing("journal.brokers", "the addresses (host:port) of Kafka brokers")
		case c.GroupID == "":
			return a.config.Missing("journal.group_id", "the name of a Kafka consumer group")
		case stopAfterObjects == 0:
			stopAfterObjects = int64(c.StopAfterObjects)
		}
		return a.runDaemon(cmd, func(_ context.Context, store *sql.Store) ([]daemon.Component, error) {
			var bar *workBar
			bounded := stopAfterObjects > 0 || c.OnEOF == string(journal.EOFStop)
			o := a.journalOptions(store)
			o.StopAfterObjects = stopAfterObjects
			o.Progress = func(processed, remaining int64) { bar.set(processed, boundOf(stopAfterObjects, processed+remaining)) }
			client, warnings, err := journal.New(o)
			for _, w := range warnings {
				a.log.Warn(w)
			}
			if err != nil {
				return nil, err
			}
			return []daemon.Component{{Name: "journal client", Run: func(ctx context.Context) error {
				if bounded {
					bar = a.progress("records", 0)
				}
				processed, err := client.Run(ctx)
				bar.stop()
				if err != nil || ctx.Err() != nil {
					return err
				}
				// It came to its end, of itself: the peer's words.
				return a.print(fmt.Sprintf("Processed %d message(s).\nDone.\n", processed))
			}}}, nil
		})
	})
	return cmd
}

// journalOptions are what the configuration says of the journal.
func (a *app) journalOptions(store *sql.Store) journal.Options {
	c := a.config.Journal
	return journal.Options{
		Brokers: c.Brokers, GroupID: c.GroupID, Store: store,
		Prefix: c.Prefix, Privileged: c.Privileged, BatchSize: c.BatchSize,
		AutoOffsetReset: journal.Reset(c.AutoOffsetReset), OnEOF: journal.EOF(c.OnEOF),
		StopAfterObjects: int64(c.StopAfterObjects), ConsumerSettings: c.ConsumerSettings,
		Rules: journal.Rules{FailuresKeepDate: a.config.FailuresKeepDate}, Log: a.log, Registry: a.metrics,
	}
}

// boundOf is how many records a bounded run will have read at its end, as far as
// is known.
func boundOf(stopAfter, known int64) int64 {
	if stopAfter > 0 {
		return min(stopAfter, known)
	}
	return known
}
