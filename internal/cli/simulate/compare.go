package simulate

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/freshsim"
	"swh-scheduler/internal/simulator/page"
)

type compareOptions struct {
	freshsim.Options
	model, changes, output string
	hours                  float64 // of delay
	csv, html              string
}

func newCompare(a *command.App) *cobra.Command {
	o := compareOptions{Options: freshsim.Defaults, model: "poisson", output: "text"}
	models := make([]string, len(freshsim.Models))
	about := ""
	for i, m := range freshsim.Models {
		models[i] = m.Name
		about += fmt.Sprintf("\n  %-9s %s", m.Name, m.About)
	}
	cmd := &cobra.Command{
		Use:   "compare [OPTIONS]",
		Short: "Compare how stale the archive is with each policy of visits",
		Long: `Compare, without a database, how stale the archive is with each policy of visits: the
Python scheduler's default ones for git (python), those of the archive's production in
general (40/40/20) and for git (15/80/5, of a sample), pools, freshness that trusts all
news to 97 % (fixed), freshness, and an oracle that has the real rate of change of each
origin and the real quality of the news. Origins change by a model:
` + about + `

or as recorded in a CSV file (--changes).`,
		Example: `  swh-scheduler simulator compare --model revived --load 0.9 --runs 5
  swh-scheduler simulator compare --changes seen.csv --html seen.html`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.Var(command.Choice(&o.model, models...), "model", "how origins change")
	flags.StringVar(&o.changes, "changes", "", "a CSV `FILE` of changes, with the columns origin and time, instead of a model")
	flags.Float64Var(&o.Load, "load", o.Load, "the work of visiting each origin once after each change, as a `part` of what workers can do")
	command.Must(flags, "load", func() bool { return o.Load > 0 && o.Load <= 100 }, "is not more than 0 and at most 100")
	flags.IntVar(&o.Origins, "origins", o.Origins, "`number` of origins")
	command.Must(flags, "origins", func() bool { return o.Origins >= 1 && o.Origins <= 10_000_000 }, "is not between 1 and 10,000,000")
	flags.IntVar(&o.Workers, "workers", o.Workers, "`number` of workers")
	command.Must(flags, "workers", func() bool { return o.Workers >= 1 }, "is not 1 or more")
	flags.Float64Var(&o.Runtime, "days", o.Runtime, "simulated `days`, after a warm-up of 90")
	command.Must(flags, "days", func() bool { return o.Runtime > 0 && o.Runtime <= 3660 }, "is not more than 0 and at most ten years")
	flags.Float64Var(&o.Longest, "longest", o.Longest, "the longest wait for a visit by freshness, in `days`")
	command.Must(flags, "longest", func() bool { return o.Longest >= 1 && o.Longest <= 3660 }, "is not between a day and ten years")
	part := func(p *float64, name, about string) {
		flags.Float64Var(p, name, *p, about)
		command.Must(flags, name, func() bool { return *p >= 0 && *p <= 1 }, "is not from 0 to 1")
	}
	falseNews := func(p *float64, name, about string) {
		flags.Float64Var(p, name, *p, about)
		command.Must(flags, name, func() bool { return *p >= 0 && *p < 1 }, "is not from 0 to below 1")
	}
	part(&o.News.Recall, "recall", "the `part` of the changes that listers report")
	part(&o.RecallTo, "recall-to", "the `part` that the best of four listers reports; the others have evenly spread recalls from --recall on. Without it there is one lister")
	falseNews(&o.News.False, "false-news", "the `part` of the listers' reports that come without a change")
	flags.Float64Var(&o.hours, "report-delay", 0, "the mean time from a change to a lister's report of it, in `hours`, beside the time until the next listing")
	command.Must(flags, "report-delay", func() bool { return o.hours >= 0 && o.hours <= 10_000 }, "is not between 0 and 10,000")
	flags.BoolVar(&o.News.Coarse, "day-dates", false, "listers report the day of a change, not the moment")
	part(&o.Hinted, "hinted", "the `part` of the origins whose forge hints at changes within half an hour")
	part(&o.Hints.Recall, "hint-recall", "the `part` of their changes that are hinted at")
	falseNews(&o.Hints.False, "hint-false", "the `part` of the hints that come without a change")
	flags.Float64Var(&o.Failures, "failures", 0, "the `part` of the visits that fail, at random")
	command.Must(flags, "failures", func() bool { return o.Failures >= 0 && o.Failures < 1 }, "is not from 0 to below 1")
	flags.IntVar(&o.Hosters, "hosters", 1, "`number` of hosters that the origins are at; half of the origins are at an eighth of them")
	command.Must(flags, "hosters", func() bool { return o.Hosters >= 1 }, "is not 1 or more")
	flags.IntVar(&o.PerHoster, "per-hoster", 0, "`number` of visits in flight that a hoster takes; 0: any")
	command.Must(flags, "per-hoster", func() bool { return o.PerHoster >= 0 }, "is negative")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "the seed of the random `number`s")
	flags.IntVar(&o.Runs, "runs", o.Runs, "`number` of runs, with seeds that follow each other, to take the mean of")
	command.Must(flags, "runs", func() bool { return o.Runs >= 1 && o.Runs <= 1000 }, "is not between 1 and 1,000")
	flags.StringVarP(&o.csv, "csv", "o", "", "export the state over time to a CSV `FILE`")
	flags.StringVar(&o.html, "html", "", "write the figures, with plots over time, to a page, `FILE`")
	command.OutputFlag(flags, &o.output)
	cmd.RunE = command.Work(func(cmd *cobra.Command, _ []string) error { return compare(a, cmd, o) })
	return cmd
}

func compare(a *command.App, cmd *cobra.Command, o compareOptions) error {
	model := freshsim.Models[slices.IndexFunc(freshsim.Models, func(m freshsim.Model) bool { return m.Name == o.model })]
	if o.changes != "" {
		for _, other := range []string{"model", "origins", "days"} {
			if cmd.Flags().Changed(other) {
				return command.Usagef(cmd, "--%s can't be given with --changes: the file sets it", other)
			}
		}
		var err error
		if model, err = readChanges(cmd, &o); err != nil {
			return err
		}
	}
	// With as many workers as origins, the visits that make up the load would never end.
	if most := max(1, o.Origins/10); o.Workers > most {
		return command.Usagef(cmd, "Invalid value for '--workers': %d are more than one for ten origins; give fewer, of %d origins at most %d.", o.Workers, o.Origins, most)
	}
	o.News.Delay = o.hours / 24
	if o.Hosters > o.Origins {
		return command.Usagef(cmd, "Invalid value for '--hosters': %d are more than origins, of which there are %d.", o.Hosters, o.Origins)
	}
	files, err := openResults(cmd, simulatorOptions{csv: o.csv, html: o.html})
	if err != nil {
		return err
	}
	reports, err := freshsim.Compare(cmd.Context(), model, o.Options)
	if err != nil {
		return err
	}
	settings := []page.Row{
		{Name: "Model of changes", Value: model.Name}, {Name: "Load", Value: fmt.Sprint(o.Load)}, {Name: "Origins", Value: pytext.Thousands(o.Origins)},
		{Name: "News of listers", Value: o.News.String()}, {Name: "Hints", Value: fmt.Sprintf("of %g of the origins, %s", o.Hinted, o.Hints)},
		{Name: "Failures", Value: fmt.Sprint(o.Failures)}, {Name: "Hosters", Value: pytext.Thousands(o.Hosters)}, {Name: "Visits in flight of each", Value: pytext.Thousands(o.PerHoster)},
		{Name: "Workers", Value: pytext.Thousands(o.Workers)}, {Name: "Days", Value: fmt.Sprintf("%.0f", o.Runtime)}, {Name: "Runs", Value: pytext.Thousands(o.Runs)},
	}
	return errors.Join(a.Show(o.output, freshsim.Summary(reports, o.Options), freshsim.Text(reports, o.Options)),
		files.write(a, func(w io.Writer) error { return freshsim.WriteCSV(w, reports) },
			func(w io.Writer) error { return freshsim.WriteHTML(w, reports, settings) }))
}

// readChanges reads the file of changes, and sets the options that the file determines.
func readChanges(cmd *cobra.Command, o *compareOptions) (freshsim.Model, error) {
	file, err := command.OpenInput(cmd, "--changes", o.changes)
	if err != nil {
		return freshsim.Model{}, err
	}
	defer func() { _ = file.Close() }()
	model, recorded, err := freshsim.ReadChanges(file)
	if err != nil {
		return model, fmt.Errorf("%s: %w", o.changes, err)
	}
	o.Origins, o.WarmUp, o.Runtime = recorded.Origins, recorded.WarmUp, recorded.Runtime
	return model, nil
}
