package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/simulator"
	"swh-scheduler/internal/simulator/page"
	"swh-scheduler/sql"
)

func newSimulator(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "simulator [OPTIONS] COMMAND [ARGS]...",
		Short:                 "Scheduler simulator",
		TraverseChildren:      true,
		DisableFlagsInUseLine: true,
		RunE:                  group,
	}
	cmd.AddCommand(newFillTestData(a), newSimulatorRun(a))
	return cmd
}

func newFillTestData(a *app) *cobra.Command {
	var origins int
	cmd := &cobra.Command{
		Use:                   "fill-test-data [OPTIONS]",
		Short:                 "Fill the scheduler with test data for simulation purposes",
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().IntVarP(&origins, "num-origins", "n", 100_000, "`number` of listed origins to add")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := a.print(fmt.Sprintf("Filling %s listed origins data...\n", pytext.Thousands(origins))); err != nil {
				return err
			}
			began := time.Now()
			if err := a.fillTestData(ctx, store, []simulator.ListerName{simulator.DefaultLister}, origins); err != nil {
				return err
			}
			return a.print(fmt.Sprintf("Completed in %.2f seconds\n", time.Since(began).Seconds()))
		})
	})
	return cmd
}

func (a *app) fillTestData(ctx context.Context, store *sql.Store, listers []simulator.ListerName, origins int) error {
	bar := a.progress("origins", origins)
	defer bar.stop()
	return simulator.Fill(ctx, store, listers, origins, time.Now(), bar.add)
}

// simulatorOptions are those of "simulator run".
type simulatorOptions struct {
	kind, policy string
	runtime      float64
	plots        bool
	csv, html    string
	workers      int
	origins      int
	visitTypes   []string
	shares       string
	output       string
	lanes        laneOptions
}

func newSimulatorRun(a *app) *cobra.Command {
	o := simulatorOptions{kind: string(simulator.OriginScheduler), output: "text"}
	cmd := &cobra.Command{
		Use:   "run [OPTIONS]",
		Short: "Run the scheduler simulator",
		Long: `Run the scheduler simulator, on a database that is there for that: it is written
to as a scheduler would.

By default, the simulation runs forever. You can cap the simulated runtime with
--runtime, and you can always press Ctrl+C to interrupt it and get the report.

'task_scheduler' is the "classic" task-based scheduler; 'origin_scheduler' is the
origin-visit-aware one, which uses --policy to decide which origins to schedule
first. The policy 'configured' stands for those of the key scheduling_policy, as
schedule-recurrent has them.

With --lanes, no scheduler is simulated and no database is used: the waits of work
are compared with those lanes and without, for 14 days or as --runtime says.`,
		Example: `  swh-scheduler simulator run --origins 20000 --runtime 604800 --plots
  swh-scheduler simulator run --lanes scheduler.yml --runtimes seen.csv --workers 100 --plots
  swh-scheduler simulator run --policy pools --workers 200 --runtime 86400 --html pools.html`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	o.flags(cmd.Flags())
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error { return a.simulate(cmd, o) })
	return cmd
}

func (o *simulatorOptions) flags(flags *pflag.FlagSet) {
	kinds := make([]string, len(simulator.Kinds))
	for i, k := range simulator.Kinds {
		kinds[i] = string(k)
	}
	flags.VarP(choice{&o.kind, kinds}, "scheduler", "s", "scheduler to simulate")
	flags.StringVarP(&o.policy, "policy", "p", string(scheduler.OldestScheduledFirst), "scheduling `POLICY` to simulate (only for origin_scheduler)")
	flags.Float64VarP(&o.runtime, "runtime", "t", 0, "simulated runtime, in `SECONDS` (default: for ever)")
	pairP(flags, &o.plots, "plots", "P", "no-plots", "show results as plots", "show no plots (default)")
	flags.StringVarP(&o.csv, "csv", "o", "", "export results in a CSV `FILE`")
	flags.StringVar(&o.html, "html", "", "write the report, with plots, to a page, `FILE`")
	flags.IntVar(&o.workers, "workers", simulator.DefaultWorkers, "`number` of workers of each visit type")
	flags.IntVar(&o.origins, "origins", 0, "fill the database with this `number` of origins first, as fill-test-data does")
	flags.StringArrayVar(&o.visitTypes, "visit-type", nil, "visit `TYPE` that has workers (default: those of the enabled origins)")
	o.lanes.flags(flags)
	flags.StringVar(&o.shares, "shares", "", "configuration `FILE` whose key shares divides the queue between listers (only for origin_scheduler)")
	outputFlag(flags, &o.output)
	peerName(flags, "plots", "showplots")
	peerName(flags, "csv", "csvfile")
}

// settings are the options that matter to what comes out, for the page.
func (o *simulatorOptions) settings() []page.Row {
	settings := []page.Row{{Name: "Scheduler", Value: o.kind}}
	if simulator.Kind(o.kind) == simulator.OriginScheduler {
		settings = append(settings, page.Row{Name: "Policy", Value: o.policy})
	}
	return append(settings, page.Row{Name: "Workers of a visit type", Value: pytext.Thousands(o.workers)})
}

// simulate runs a simulation and reports.
func (a *app) simulate(cmd *cobra.Command, o simulatorOptions) error {
	if o.lanes.file != "" {
		return a.simulateLanes(cmd, o)
	}
	policies, err := a.simulatedPolicies(cmd, o.policy)
	if err != nil {
		return err
	}
	if o.workers < 1 {
		return usagef(cmd, "Invalid value for '--workers': %d is not 1 or more.", o.workers)
	}
	if o.origins < 0 {
		return usagef(cmd, "Invalid value for '--origins': %d is negative.", o.origins)
	}
	if math.IsNaN(o.runtime) {
		return usagef(cmd, "Invalid value for '--runtime' / '-t': it is no number of seconds.")
	}
	shares, err := a.simulatedShares(cmd, o)
	if err != nil {
		return err
	}
	csv, err := openResult(cmd, "--csv' / '-o", o.csv)
	if err != nil {
		return err
	}
	html, err := openResult(cmd, "--html", o.html)
	if err != nil {
		return err
	}
	return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
		options := simulator.Options{
			Store: store, Log: a.log, Kind: simulator.Kind(o.kind), Policies: policies,
			VisitTypes: o.visitTypes, Workers: o.workers, Listed: o.origins, Start: time.Now(),
			Listers: simulator.ListersOf(shares), Shares: shares,
		}
		if cmd.Flags().Changed("runtime") {
			runtime := time.Duration(min(max(o.runtime, 0)*float64(time.Second), math.MaxInt64/2))
			options.Runtime = &runtime
		}
		if o.origins > 0 {
			if err := a.fillTestData(ctx, store, options.Listers, o.origins); err != nil {
				return err
			}
		}
		report, err := a.runSimulation(ctx, options)
		if err != nil {
			return err
		}
		return errors.Join(a.printReport(report, o), csv.write(a.stdout, report.WriteCSV),
			html.write(a.stdout, func(w io.Writer) error { return report.WriteHTML(w, o.settings()) }))
	})
}

// configuredPolicies is the --policy that stands for those of the configuration.
const configuredPolicies = "configured"

// simulatedPolicies are the policies, by visit type, that a --policy stands for.
func (a *app) simulatedPolicies(cmd *cobra.Command, name string) (map[string][]scheduler.WeightedPolicy, error) {
	if name == configuredPolicies {
		return a.config.SchedulingPolicy, nil
	}
	known := append(simulator.PolicyNames(), configuredPolicies)
	if !slices.Contains(known, name) {
		problem := fmt.Sprintf("'%s' is not one of '%s'.", name, strings.Join(known, "', '"))
		if near := config.Nearest(name, known); near != "" {
			problem += fmt.Sprintf(" Did you mean '%s'?", near)
		}
		return nil, usagef(cmd, "Invalid value for '--policy' / '-p': %s", problem)
	}
	return map[string][]scheduler.WeightedPolicy{"default": {{Weight: 1, Filter: scheduler.VisitFilter{
		Policy: scheduler.VisitPolicy(name), Cooldowns: scheduler.DefaultCooldowns,
	}}}}, nil
}

// simulatedShares reads the shares of a run, and has the database migrated to what
// they need.
func (a *app) simulatedShares(cmd *cobra.Command, o simulatorOptions) (map[string]scheduler.Shares, error) {
	if o.shares == "" {
		return nil, nil
	}
	if simulator.Kind(o.kind) != simulator.OriginScheduler {
		return nil, usagef(cmd, "Invalid value for '--shares': only %s can be simulated with shares.", simulator.OriginScheduler)
	}
	c, warnings, err := config.Load(o.shares)
	for _, w := range warnings {
		a.log.Warn(w.String())
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, usagef(cmd, "Invalid value for '--shares': File '%s' does not exist.", o.shares)
	}
	if err != nil {
		return nil, err
	}
	if len(c.Shares) == 0 {
		return nil, usagef(cmd, "Invalid value for '--shares': %s has no key shares.", o.shares)
	}
	dsn, err := a.dsn(cmd)
	if err == nil {
		_, err = sql.Migrate(cmd.Context(), dsn, sql.MigrateOptions{Logger: a.log, Shares: c.Shares})
	}
	return c.Shares, err
}

// runSimulation runs it, and shows how far it is.
func (a *app) runSimulation(ctx context.Context, o simulator.Options) (*simulator.Report, error) {
	hours := 0
	if o.Runtime != nil {
		hours = int(o.Runtime.Hours())
	}
	bar := a.progress("simulated hours", hours)
	defer bar.stop()
	o.Progress = func(simulated time.Duration) { bar.set(int64(simulated.Hours()), int64(hours)) }
	return simulator.Run(ctx, o)
}

// resultFile is a file that a result goes to; "" is none, "-" standard output.
type resultFile struct {
	path string
	file *os.File
}

// openResult makes sure, before anything is simulated, that a file can be written.
// What it holds stays until there is a result.
func openResult(cmd *cobra.Command, option, path string) (*resultFile, error) {
	r := &resultFile{path: path}
	if path == "" || path == "-" {
		return r, nil
	}
	var err error
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
		return nil, usagef(cmd, "Invalid value for '%s': '%s': %s", option, path, errors.Unwrap(err))
	}
	return r, nil
}

// write has a result written, if it is wanted.
func (r *resultFile) write(stdout io.Writer, write func(io.Writer) error) error {
	switch {
	case r.path == "-":
		return write(stdout)
	case r.file == nil:
		return nil
	}
	err := r.file.Truncate(0)
	if errors.Is(err, syscall.EINVAL) {
		err = nil // no regular file
	}
	if err == nil {
		err = write(r.file)
	}
	return errors.Join(err, r.file.Close())
}

// printReport prints what a simulation came to.
func (a *app) printReport(r *simulator.Report, o simulatorOptions) error {
	if o.output == "json" {
		totals := map[string]any{
			"scheduler": o.kind, "simulated": r.Simulated.Seconds(), "total_visits": r.Visits,
			"uneventful_visits": r.Uneventful, "eventful_visits": len(r.Eventful),
			"partial_visits": r.Partial, "very_long_running_tasks": r.VeryLong(),
		}
		if shares := r.Shares(); len(shares) > 0 {
			totals["shares"] = shares
		}
		return a.printJSON(totals)
	}
	text := fmt.Sprintf("total simulated time: %s\n%s", pytext.Timedelta(r.Simulated), r.Text()) + r.SharesText()
	if o.plots {
		text += r.Plots(a.styled)
	}
	return a.print(text + "\n")
}
