package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newCheckListed(a *app) *cobra.Command {
	var listing bool
	output := "text"
	cmd := &cobra.Command{
		Use:                   "check-listed-origins [OPTIONS] LISTER_NAME INSTANCE_NAME",
		Short:                 "Check listed origins registered in the scheduler database",
		Args:                  arguments(false, false, "LISTER_NAME", "INSTANCE_NAME"),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolVarP(&listing, "list", "l", false, "display listed origins")
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			origins, err := a.listedBy(ctx, b, args[0], args[1])
			if err != nil {
				return err
			}
			if output == "json" {
				return (&originTable{output: output, columns: originColumns}).print(a, origins, zone)
			}
			var text strings.Builder
			if listing {
				rows := make([][]string, len(origins))
				for i, o := range origins {
					rows[i] = []string{o.URL, dateOrNone(&o.LastSeen, zone), dateOrNone(o.LastUpdate, zone)}
				}
				text.WriteString(pytext.Table([]string{"url", "last_seen", "last_update"}, rows) + "\n")
			}
			fmt.Fprintf(&text, "\nForge %s (%s) has %d listed origins in the scheduler database.\n", args[1], args[0], len(origins))
			return a.print(text.String())
		})
	})
	return cmd
}

// listedBy reads all origins of a lister, which must have some.
func (a *app) listedBy(ctx context.Context, b backend, lister, instance string) ([]scheduler.ListedOrigin, error) {
	l, err := b.Lister(ctx, lister, instance)
	if errors.Is(err, scheduler.ErrUnknownLister) {
		return nil, sentencef("Forge %s (%s) isn't registered in the scheduler database.", instance, lister)
	}
	if err != nil {
		return nil, err
	}
	bar := a.progress("reading listed origins", 0)
	defer bar.stop()
	var origins []scheduler.ListedOrigin
	const page = 10000
	filter := sql.ListedOriginFilter{ListerID: uuid.NullUUID{UUID: l.ID, Valid: true}, Limit: page}
	for {
		some, next, err := b.ListedOrigins(ctx, filter)
		if err != nil {
			return nil, err
		}
		origins = append(origins, some...)
		bar.add(len(some))
		if filter.After = next; next == nil {
			break
		}
	}
	if len(origins) == 0 {
		return nil, sentencef("Forge %s (%s) has 0 listed origin in the scheduler database.", instance, lister)
	}
	return origins, nil
}

func newCheckIngested(a *app) *cobra.Command {
	var (
		listing, watch bool
		period         string
		minimum        float64
	)
	output := "text"
	cmd := &cobra.Command{
		Use:                   "check-ingested-origins [OPTIONS] LISTER_NAME INSTANCE_NAME",
		Short:                 "Check the origins marked as ingested in the scheduler database",
		Args:                  arguments(false, false, "LISTER_NAME", "INSTANCE_NAME"),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&listing, "list", "l", false, "display the origins that were visited")
	peerName(flags, "list", "with_listing")
	flags.BoolVarP(&watch, "watch", "w", false, "watch until all were visited")
	flags.StringVar(&period, "watch-period", "30 minutes", "`INTERVAL` between two looks")
	flags.Float64Var(&minimum, "minimum-success", 0, "minimum success rate as a decimal `PERCENTAGE`; fewer are an error")
	peerName(flags, "minimum-success", "minimum_success_rate")
	outputFlag(flags, &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withBackend(cmd, func(ctx context.Context, b backend) error {
			zone, err := b.Zone(ctx)
			if err != nil {
				return err
			}
			origins, err := a.listedBy(ctx, b, args[0], args[1])
			if err != nil {
				return err
			}
			c, err := a.countIngested(ctx, b, origins, args[1])
			if err != nil {
				return err
			}
			if watch {
				pause, err := parseInterval(period)
				if err != nil {
					return fmt.Errorf("--watch-period: %w", err)
				}
				for c.unvisited > 0 {
					if err := a.print(c.summary(args[1], " ingestion is still in progress...")); err != nil {
						return err
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(pause):
					}
					if c, err = a.countIngested(ctx, b, origins, args[1]); err != nil {
						return err
					}
				}
			}
			if err := a.printIngested(c, args, listing, output, zone); err != nil {
				return err
			}
			if c.successRate() < minimum {
				return usagef(cmd, "There are too many ingestion failures.")
			}
			return nil
		})
	})
	return cmd
}

// ingested is what became of some origins.
type ingested struct {
	failed, unvisited, notFound, successful int
	visited                                 []scheduler.VisitStats
}

func (c ingested) total() int { return c.failed + c.unvisited + c.notFound + c.successful }

func (c ingested) successRate() float64 { return float64(c.successful) / float64(c.total()) * 100 }

// countIngested counts what became of origins, of which some must have been
// scheduled.
func (a *app) countIngested(ctx context.Context, b backend, origins []scheduler.ListedOrigin, instance string) (c ingested, err error) {
	bar := a.progress("reading visits", len(origins))
	defer bar.stop()
	const chunk = 10000
	for from := 0; from < len(origins); from += chunk {
		some := origins[from:min(from+chunk, len(origins))]
		keys := make([]scheduler.OriginKey, len(some))
		for i, o := range some {
			keys[i] = scheduler.OriginKey{URL: o.URL, VisitType: o.VisitType}
		}
		stats, err := b.VisitStats(ctx, keys)
		if err != nil {
			return c, err
		}
		for _, s := range stats {
			c.count(s)
		}
		bar.add(len(some))
	}
	if c.total() == 0 {
		return c, sentencef("Forge %s has 0 scheduled ingest in the scheduler database.", instance)
	}
	return c, nil
}

func (c *ingested) count(s scheduler.VisitStats) {
	switch s.LastVisitStatus {
	case scheduler.VisitSuccessful:
		c.successful++
	case scheduler.VisitFailed:
		c.failed++
	case scheduler.VisitNotFound:
		c.notFound++
	default:
		c.unvisited++
		return
	}
	c.visited = append(c.visited, s)
}

// summary is the peer's picture of the counts.
func (c ingested) summary(instance, state string) string {
	return fmt.Sprintf("\nForge %s%s\nfailed      : %d\nNone        : %d\nnot_found   : %d\nsuccessful  : %d\ntotal       : %d\nsuccess rate: %.2f%%\n",
		instance, state, c.failed, c.unvisited, c.notFound, c.successful, c.total(), c.successRate())
}

func (a *app) printIngested(c ingested, args []string, listing bool, output string, zone *time.Location) error {
	if output == "json" {
		return a.printJSON(ingestedObject(c, listing))
	}
	var text strings.Builder
	if listing {
		rows := make([][]string, len(c.visited))
		for i, s := range c.visited {
			rows[i] = []string{s.URL, string(s.LastVisitStatus), dateOrNone(s.LastVisit, zone)}
		}
		text.WriteString(pytext.Table([]string{"url", "last_visit_status", "last_visit"}, rows) + "\n")
	}
	text.WriteString(c.summary(args[1], fmt.Sprintf(" (%s) has %d scheduled ingests in the scheduler.", args[0], c.total())))
	return a.print(text.String())
}

func ingestedObject(c ingested, listing bool) map[string]any {
	object := map[string]any{
		"failed": c.failed, "not_visited": c.unvisited, "not_found": c.notFound, "successful": c.successful,
		"total": c.total(), "success_rate": c.successRate(),
	}
	if listing {
		visited := make([]map[string]any, len(c.visited))
		for i, s := range c.visited {
			visited[i] = map[string]any{"url": s.URL, "visit_type": s.VisitType, "last_visit_status": s.LastVisitStatus, "last_visit": s.LastVisit}
		}
		object["origins"] = visited
	}
	return object
}
