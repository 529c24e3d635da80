package simulate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/simulator/lanesim"
	"swh-scheduler/internal/simulator/page"
)

type laneOptions struct {
	file, runtimes string
	load           float64
	batch          int
	between        time.Duration
	seed           uint64
}

func (o *laneOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "lanes", "", "compare waits with the lanes of a configuration `FILE` and without, instead of simulating a scheduler")
	flags.StringVar(&o.runtimes, "runtimes", "", "with --lanes: a CSV `FILE` of observed runtimes, with the columns runtime, in seconds, and optionally origin and lister (default: the model of origins)")
	flags.Float64Var(&o.load, "load", 0.9, "with --lanes: the `part` of the time that workers are busy")
	command.Must(flags, "load", func() bool { return o.load > 0 && o.load < 1 }, "is not between 0 and 1")
	flags.IntVar(&o.batch, "batch", 200, "with --lanes: the `number` of visits of a claim")
	command.Must(flags, "batch", func() bool { return o.batch >= 1 }, "is not 1 or more")
	o.between = 24 * time.Hour
	flags.Var(command.Duration(&o.between), "between", "with --lanes and without --runtimes: the mean `DURATION` between an origin's visits")
	command.Must(flags, "between", func() bool { return o.between >= time.Minute && o.between <= 10*365*24*time.Hour }, "is not between a minute and ten years")
	flags.Uint64Var(&o.seed, "seed", 1, "with --lanes: the seed of the random `number`s")
}

// laneRuntime is the default of --runtime with --lanes.
const laneRuntime = 14 * 24 * time.Hour

func simulateLanes(a *command.App, cmd *cobra.Command, o simulatorOptions) error {
	lanes, err := simulatedLanes(cmd, o)
	if err != nil {
		return err
	}
	load := lanesim.Load{Workers: o.workers, Busy: o.lanes.load, Batch: o.lanes.batch, Duration: laneRuntime}
	if cmd.Flags().Changed("runtime") {
		load.Duration = time.Duration(o.runtime * float64(time.Second))
	}
	switch {
	case o.workers < len(lanes):
		return command.Usagef(cmd, "Invalid value for '--workers': %d is less than the number of lanes, %d.", o.workers, len(lanes))
	case !(load.Duration > 0 && load.Duration <= 10*365*24*time.Hour):
		return command.Usagef(cmd, "Invalid value for '--runtime' / '-t': with --lanes it must be more than 0 and at most ten years.")
	}
	results, err := openResults(cmd, o)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.lanes.seed, 0))
	var jobs []lanesim.Job
	if o.lanes.runtimes == "" {
		jobs, err = lanesim.ModelArrivals(o.lanes.between, load, random)
	} else {
		var seen []lanesim.RecordedRun
		if seen, err = readRuntimes(cmd, o.lanes.runtimes); err != nil {
			return err
		}
		jobs, err = lanesim.Arrivals(seen, load, random)
	}
	if err != nil {
		return command.Usagef(cmd, "With --lanes: %s.", err)
	}
	c, err := lanesim.Compare(cmd.Context(), jobs, lanes, o.workers)
	if err != nil {
		return err
	}
	err = a.Show(o.output, c.Summary(), c.Text(o.plots, a.Styled))
	settings := []page.Row{{Name: "Workers", Value: pytext.Thousands(o.workers)}, {Name: "Load", Value: fmt.Sprint(load.Busy)}, {Name: "Batch", Value: pytext.Thousands(load.Batch)}}
	for _, l := range lanes {
		value := fmt.Sprintf("%s, %s (%d to %d)", l.SoftTimeLimit, model.Count(l.Slots, "slot", "slots"), l.MinSlots, max(l.Slots, l.MaxSlots))
		if l.TargetWait > 0 {
			value += fmt.Sprintf(", target wait %s", l.TargetWait)
		}
		settings = append(settings, page.Row{Name: "Lane " + l.Name, Value: value})
	}
	return errors.Join(err, results.write(a, c.WriteCSV, func(w io.Writer) error { return c.WriteHTML(w, settings) }))
}

// simulatedLanes returns the lanes of the file's only task type, or of --visit-type's.
func simulatedLanes(cmd *cobra.Command, o simulatorOptions) ([]model.Lane, error) {
	c, _, err := config.Load(o.lanes.file)
	if err != nil {
		return nil, command.Usagef(cmd, "Invalid value for '--lanes': %s", err)
	}
	names := slices.Sorted(maps.Keys(c.Lanes))
	var name string
	switch {
	case len(names) == 0:
		return nil, command.Usagef(cmd, "Invalid value for '--lanes': '%s' has no lanes", o.lanes.file)
	case len(o.visitTypes) > 1:
		return nil, command.Usagef(cmd, "With --lanes, --visit-type can be given once")
	case len(o.visitTypes) == 1:
		name = model.LoaderTaskType(o.visitTypes[0])
		if c.Lanes[name] == nil {
			return nil, command.Usagef(cmd, "'%s' has no lanes for task type %s, but for %s", o.lanes.file, name, strings.Join(names, ", "))
		}
	case len(names) > 1:
		return nil, command.Usagef(cmd, "'%s' has lanes for several task types; choose one by --visit-type: %s", o.lanes.file, strings.Join(names, ", "))
	default:
		name = names[0]
	}
	return c.Lanes[name], nil
}

func readRuntimes(cmd *cobra.Command, path string) ([]lanesim.RecordedRun, error) {
	file, err := command.OpenInput(cmd, "--runtimes", path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	seen, err := lanesim.ReadRuntimes(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return seen, nil
}
