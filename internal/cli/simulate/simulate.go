// Package simulate has the commands of simulator.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator"
	"swh-scheduler/internal/simulator/page"
	"swh-scheduler/journal"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulator [OPTIONS] COMMAND [ARGS]...",
		Short: "Scheduler simulator",
	}
	cmd.AddCommand(newFillTestData(a), newSimulatorRun(a), newCompare(a))
	return cmd
}

func newFillTestData(a *command.App) *cobra.Command {
	var origins int
	var forks float64
	cmd := &cobra.Command{
		Use:   "fill-test-data [OPTIONS]",
		Short: "Fill the scheduler with test data for simulation purposes",
	}
	cmd.Flags().IntVarP(&origins, "num-origins", "n", 100_000, "`number` of listed origins to add")
	command.Must(cmd.Flags(), "num-origins", func() bool { return origins >= 0 }, "is negative")
	forksFlag(cmd.Flags(), &forks)
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, _ []string) error {
		if err := a.Print(fmt.Sprintf("Filling %s listed origins data...\n", pytext.Thousands(origins))); err != nil {
			return err
		}
		began := time.Now()
		if err := fillTestData(ctx, a, b, []simulator.ListerName{simulator.DefaultLister}, origins, forks); err != nil {
			return err
		}
		return a.Print(fmt.Sprintf("Completed in %.2f seconds\n", time.Since(began).Seconds()))
	})
	return cmd
}

func forksFlag(flags *pflag.FlagSet, forks *float64) {
	flags.Float64Var(forks, "forks", 0, "`part` of the origins that are forks, from 0 to 1")
	command.Must(flags, "forks", func() bool { return *forks >= 0 && *forks <= 1 }, "is not from 0 to 1")
}

func fillTestData(ctx context.Context, a *command.App, b simulator.Store, listers []simulator.ListerName, origins int, forks float64) error {
	bar := a.Progress("origins", origins)
	defer bar.Stop()
	return simulator.Fill(ctx, b, listers, origins, forks, time.Now(), bar.Add)
}

type simulatorOptions struct {
	kind, policy string
	runtime      float64
	plots        bool
	csv, html    string
	workers      int
	origins      int
	forks        float64
	urgent       int
	visitTypes   []string
	shares       string
	output       string
	lanes        laneOptions
}

func newSimulatorRun(a *command.App) *cobra.Command {
	o := simulatorOptions{kind: string(simulator.OriginScheduler), output: "text"}
	cmd := &cobra.Command{
		Use:   "run [OPTIONS]",
		Short: "Run the scheduler simulator",
		Long: `Run the scheduler simulator. The simulation writes to the database, so give it a
database that is used for nothing else.

By default, the simulation runs forever. You can cap the simulated runtime with
--runtime, and you can always press Ctrl+C to interrupt it and get the report.

'task_scheduler' is the "classic" task-based scheduler; 'origin_scheduler' is the
origin-visit-aware one, which uses --policy to decide which origins to schedule
first. The policy 'configured' means those of the key scheduling_policy, as used by
schedule-recurrent.

With --lanes, the command uses neither a scheduler nor a database. It compares the waits
of work with these lanes and without, for 14 days or --runtime.`,
		Example: `  swh-scheduler simulator run --origins 20000 --runtime 604800 --plots
  swh-scheduler simulator run --lanes scheduler.yml --runtimes seen.csv --workers 100 --plots
  swh-scheduler simulator run --policy pools --workers 200 --runtime 86400 --html pools.html`,
	}
	o.flags(cmd.Flags())
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error { return simulate(a, cmd, o) })
	return cmd
}

func (o *simulatorOptions) flags(flags *pflag.FlagSet) {
	kinds := make([]string, len(simulator.Kinds))
	for i, k := range simulator.Kinds {
		kinds[i] = string(k)
	}
	flags.VarP(command.Choice(&o.kind, kinds...), "scheduler", "s", "scheduler to simulate")
	flags.StringVarP(&o.policy, "policy", "p", string(model.OldestScheduledFirst), "scheduling `POLICY` to simulate (only for origin_scheduler)")
	flags.Float64VarP(&o.runtime, "runtime", "t", 0, "simulated runtime, in `SECONDS` (default: for ever)")
	command.Must(flags, "runtime", func() bool { return !math.IsNaN(o.runtime) }, "is not a number of seconds")
	command.Pair(flags, &o.plots, "plots", "P", "no-plots", "show results as plots", "show no plots (default)")
	flags.StringVarP(&o.csv, "csv", "o", "", "export results in a CSV `FILE`")
	flags.StringVar(&o.html, "html", "", "write the report, with plots, to a page, `FILE`")
	flags.IntVar(&o.workers, "workers", simulator.DefaultWorkers, "`number` of workers of each visit type")
	command.Must(flags, "workers", func() bool { return o.workers >= 1 }, "is not 1 or more")
	flags.IntVar(&o.origins, "origins", 0, "fill the database with this `number` of origins first, as fill-test-data does")
	command.Must(flags, "origins", func() bool { return o.origins >= 0 }, "is negative")
	forksFlag(flags, &o.forks)
	flags.IntVar(&o.urgent, "priority-tasks", 0, "`number` of tasks with priority to add each hour (only for task_scheduler)")
	flags.StringArrayVar(&o.visitTypes, "visit-type", nil, "visit `TYPE` that has workers (default: those of the enabled origins)")
	o.lanes.flags(flags)
	flags.StringVar(&o.shares, "shares", "", "configuration `FILE` whose key shares divides the queue between listers (only for origin_scheduler)")
	command.OutputFlag(flags, &o.output)
	command.PythonName(flags, "plots", "showplots")
	command.PythonName(flags, "csv", "csvfile")
}

// settings returns the options that influence the result, for the page.
func (o *simulatorOptions) settings() []page.Row {
	settings := []page.Row{{Name: "Scheduler", Value: o.kind}}
	if simulator.Kind(o.kind) == simulator.OriginScheduler {
		settings = append(settings, page.Row{Name: "Policy", Value: o.policy})
	}
	if o.forks > 0 {
		settings = append(settings, page.Row{Name: "Part of the listed origins that are forks", Value: strconv.FormatFloat(o.forks, 'g', -1, 64)})
	}
	return append(settings, page.Row{Name: "Workers of a visit type", Value: pytext.Thousands(o.workers)})
}

func simulate(a *command.App, cmd *cobra.Command, o simulatorOptions) error {
	if o.lanes.file != "" {
		return simulateLanes(a, cmd, o)
	}
	policies, err := o.check(a, cmd)
	if err != nil {
		return err
	}
	shares, ageing, err := simulatedShares(a, cmd, o)
	if err != nil {
		return err
	}
	results, err := openResults(cmd, o)
	if err == nil && simulator.Kind(o.kind) == simulator.OriginScheduler && model.HasFreshness(policies) {
		err = migrateFor(a, cmd, migrate.Options{Policies: policies}) // makes the candidates, which have the moments of visits
	}
	if err != nil {
		return err
	}
	return a.WithStore(cmd, func(ctx context.Context, store *db.Store) error {
		options := simulator.Options{
			Store: store, Log: a.Log, Kind: simulator.Kind(o.kind), Policies: policies,
			VisitTypes: o.visitTypes, Workers: o.workers, Listed: o.origins, Forks: o.forks, Start: time.Now(),
			Listers: simulator.ListersOf(shares), Shares: shares, Ageing: ageing, Urgent: o.urgent,
			Rules: journal.Rules{Visits: &a.Config.VisitRules, FailuresKeepDate: a.Config.FailuresKeepDate},
		}
		if cmd.Flags().Changed("runtime") {
			runtime := time.Duration(min(max(o.runtime, 0)*float64(time.Second), math.MaxInt64/2))
			options.Runtime = &runtime
		}
		if o.origins > 0 {
			if err := fillTestData(ctx, a, store, options.Listers, o.origins, o.forks); err != nil {
				return err
			}
		}
		report, err := runSimulation(ctx, a, options)
		if err != nil {
			return err
		}
		return errors.Join(printReport(a, report, o),
			results.write(a, report.WriteCSV, func(w io.Writer) error { return report.WriteHTML(w, o.settings()) }))
	})
}

// check refuses options that make no sense, and returns the policies that --policy names.
func (o *simulatorOptions) check(a *command.App, cmd *cobra.Command) (map[string][]model.WeightedPolicy, error) {
	policies, err := simulator.PoliciesOf(o.policy, a.Config.SchedulingPolicy)
	switch {
	case err != nil:
		return nil, command.Usagef(cmd, "Invalid value for '--policy' / '-p': %s", err)
	case o.urgent < 0 || o.urgent > 0 && simulator.Kind(o.kind) != simulator.TaskScheduler:
		return nil, command.Usagef(cmd, "Invalid value for '--priority-tasks': it is for %s, and not negative.", simulator.TaskScheduler)
	}
	return policies, nil
}

// simulatedShares reads the shares of a run and the ageing of priorities, and migrates the
// database for them.
func simulatedShares(a *command.App, cmd *cobra.Command, o simulatorOptions) (map[string]model.Shares, time.Duration, error) {
	if o.shares == "" {
		return nil, a.Config.PriorityAgeing, nil
	}
	if simulator.Kind(o.kind) != simulator.OriginScheduler {
		return nil, 0, command.Usagef(cmd, "Invalid value for '--shares': only %s can be simulated with shares.", simulator.OriginScheduler)
	}
	c, warnings, err := config.Load(o.shares)
	for _, w := range warnings {
		a.Log.Warn(w.String())
	}
	if e, ok := errors.AsType[*config.Error](err); ok && e.Unread {
		return nil, 0, command.Usagef(cmd, "Invalid value for '--shares': File '%s' %s.", o.shares, e.Problem)
	}
	if err != nil {
		return nil, 0, err
	}
	if len(c.Shares) == 0 {
		return nil, 0, command.Usagef(cmd, "Invalid value for '--shares': %s has no key shares.", o.shares)
	}
	return c.Shares, c.PriorityAgeing, migrateFor(a, cmd, migrate.Options{Shares: c.Shares})
}

// migrateFor migrates the database for what is simulated.
func migrateFor(a *command.App, cmd *cobra.Command, o migrate.Options) error {
	dsn, err := a.DSN(cmd)
	if err == nil {
		o.Logger = a.Log
		_, err = migrate.Run(cmd.Context(), dsn, o)
	}
	return err
}

func runSimulation(ctx context.Context, a *command.App, o simulator.Options) (*simulator.Report, error) {
	hours := 0
	if o.Runtime != nil {
		hours = int(o.Runtime.Hours())
	}
	bar := a.Progress("simulated hours", hours)
	defer bar.Stop()
	o.Progress = func(simulated time.Duration) { bar.Set(int64(simulated.Hours()), int64(hours)) }
	return simulator.Run(ctx, o)
}

// resultFile is a file for a result. The path "" is no file, "-" is standard output.
type resultFile struct {
	path string
	file *os.File
}

type results struct{ csv, html resultFile }

// openResults checks, before the simulation, that the files can be written. It leaves their contents: a later write
// replaces them.
func openResults(cmd *cobra.Command, o simulatorOptions) (results, error) {
	r := results{csv: resultFile{path: o.csv}, html: resultFile{path: o.html}}
	err := r.csv.open(cmd, "--csv' / '-o")
	if err == nil {
		err = r.html.open(cmd, "--html")
	}
	return r, err
}

func (r results) write(a *command.App, csv, html func(io.Writer) error) error {
	return errors.Join(r.csv.write(a.Stdout, csv), r.html.write(a.Stdout, html))
}

func (r *resultFile) open(cmd *cobra.Command, option string) (err error) {
	if r.path == "" || r.path == "-" {
		return nil
	}
	if r.file, err = os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
		return command.Usagef(cmd, "Invalid value for '%s': '%s': %s", option, r.path, errors.Unwrap(err))
	}
	return nil
}

func (r resultFile) write(stdout io.Writer, write func(io.Writer) error) error {
	switch {
	case r.path == "-":
		return write(stdout)
	case r.file == nil:
		return nil
	}
	err := r.file.Truncate(0)
	if errors.Is(err, syscall.EINVAL) {
		err = nil // not a regular file, such as /dev/stdout
	}
	if err == nil {
		err = write(r.file)
	}
	return errors.Join(err, r.file.Close())
}

func printReport(a *command.App, r *simulator.Report, o simulatorOptions) error {
	text := fmt.Sprintf("total simulated time: %s\n%s", pytext.Timedelta(r.Simulated), r.Text()) + r.ForksText() + r.SharesText() + r.UrgentText()
	if o.plots {
		text += r.Plots(a.Styled)
	}
	return a.Show(o.output, r.Totals(simulator.Kind(o.kind)), text+"\n")
}
