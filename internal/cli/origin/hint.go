package origin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/taskinput"
)

// hintOptions are the options of the command.
type hintOptions struct {
	file, visitType, source, output string
	changed                         command.Date
}

func newHint(a *command.App) *cobra.Command {
	o := hintOptions{output: "text"}
	cmd := &cobra.Command{
		Use:   "hint [OPTIONS] [URL]...",
		Short: "Hint that origins have changed",
		Long: `Hint that origins have changed: the date of the last update of each becomes that of the
hint, unless a lister has recorded a later one. So the policies visit them sooner, at
most once in a cooldown. The command prints how many hints had which result.`,
		Example: `  swh-scheduler origin hint https://forge.example/user/project
  swh-scheduler origin hint --file changed.txt --source mirror`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "`FILE` of URLs, one a line; - is standard input")
	flags.StringVar(&o.visitType, "type", "", "visit `TYPE` of the origins (default every one of a URL)")
	flags.Var(&o.changed, "changed-at", "`DATE` of the change, at most the present one (default now)")
	flags.StringVar(&o.source, "source", "cli", "`NAME` under which the hints are counted")
	command.Must(flags, "source", func() bool { return model.IsHintSource(o.source) }, "is no name of up to 63 letters, digits, dots, dashes and underscores")
	command.OutputFlag(flags, &o.output)
	cmd.RunE = a.OnScheduler(func(ctx context.Context, cmd *cobra.Command, b command.Scheduler, args []string) error {
		if len(args) == 0 && o.file == "" {
			return command.Usagef(cmd, "Name URLs, or a file of URLs with '--file'.")
		}
		return o.run(ctx, a, cmd, b, args)
	})
	return cmd
}

// run sends the hints of the arguments, then those of the file, model.MaxHints at a time.
func (o hintOptions) run(ctx context.Context, a *command.App, cmd *cobra.Command, b command.Scheduler, urls []string) error {
	var answer model.HintAnswer
	var batch []model.Hint
	send := func(enough int) error {
		if len(batch) < enough {
			return nil
		}
		part, err := b.HintOrigins(ctx, batch)
		answer.Sum(part)
		batch = batch[:0]
		return err
	}
	add := func(url string) error {
		batch = append(batch, model.Hint{URL: url, VisitType: o.visitType, ChangedAt: o.changed.Or(time.Time{}), Source: o.source})
		return send(model.MaxHints)
	}
	err := o.each(cmd, urls, add)
	if last := send(1); err == nil {
		err = last
	}
	// The hints before an error are written, so their counts are printed.
	if err == nil || answer.Total() > 0 {
		err = errors.Join(err, o.print(a, answer))
	}
	return err
}

// each calls add with the URLs, then with those of the file.
func (o hintOptions) each(cmd *cobra.Command, urls []string, add func(url string) error) error {
	for _, url := range urls {
		if err := add(url); err != nil {
			return err
		}
	}
	if o.file == "" {
		return nil
	}
	file, err := command.OpenInput(cmd, "--file", o.file)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for url, err := range taskinput.URLs(file) {
		if err != nil {
			return err
		}
		if err := add(url); err != nil {
			return err
		}
	}
	return nil
}

// print prints the results. Hints that aren't valid are an error.
func (o hintOptions) print(a *command.App, answer model.HintAnswer) error {
	var text strings.Builder
	for _, line := range []struct {
		n    int
		what string
	}{
		{answer.Moved, "moved"}, {answer.Newer, "have that date or a later one"}, {answer.Repeated, "wait for a visit already"},
		{answer.Created, "created"}, {answer.Unknown, "unknown"}, {answer.Disabled, "disabled"}, {answer.Refused, "refused"},
	} {
		if line.n > 0 {
			fmt.Fprintf(&text, "%d %s\n", line.n, line.what)
		}
	}
	for _, r := range answer.Refusals {
		fmt.Fprintf(&text, "  %s: %s\n", pytext.String(r.URL), r.Why)
	}
	if err := a.Show(o.output, answer, text.String()); err != nil {
		return err
	}
	if answer.Refused > 0 {
		return fmt.Errorf("%s refused", model.Count(answer.Refused, "hint was", "hints were"))
	}
	return nil
}
