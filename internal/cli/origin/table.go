package origin

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

// originFields are the fields of listed origins, in the order of the Python scheduler.
var originFields = []string{
	"lister_id", "url", "visit_type", "extra_loader_arguments", "last_update", "is_fork", "forked_from_url", "enabled", "first_seen", "last_seen",
}

// cell is a field's value for JSON, and its text in the Python scheduler's CSV.
type cell struct {
	value any
	text  string
}

func originCells(o model.ListedOrigin) []cell {
	arguments, err := pytext.Repr(o.ExtraLoaderArguments)
	if err != nil {
		arguments = string(o.ExtraLoaderArguments)
	}
	return []cell{
		{o.ListerID, o.ListerID.String()},
		{o.URL, o.URL},
		{o.VisitType, o.VisitType},
		{o.ExtraLoaderArguments, arguments},
		{o.LastUpdate, dateOrNone(o.LastUpdate)},
		{o.IsFork, pytext.OrNone(o.IsFork, pytext.Bool)},
		{o.ForkedFromURL, pytext.OrNone(o.ForkedFromURL, func(s string) string { return s })},
		{o.Enabled, pytext.Bool(o.Enabled)},
		{o.FirstSeen, dateOrNone(&o.FirstSeen)},
		{o.LastSeen, dateOrNone(&o.LastSeen)},
	}
}

func dateOrNone(t *time.Time) string {
	return pytext.OrNone(t, func(t time.Time) string { return pytext.Datetime(t.UTC()) })
}

type originTable struct {
	names   string // fields to print, joined by commas
	header  bool
	output  string
	columns []int // of originFields
}

func (o *originTable) flags(flags *pflag.FlagSet) {
	o.header, o.output = true, "text"
	flags.StringVarP(&o.names, "fields", "f", "", "`FIELDS` of listed origins to print, joined by commas (default all)")
	command.Pair(flags, &o.header, "with-header", "", "without-header", "print a header (default)", "print no header")
	command.OutputFlag(flags, &o.output)
}

func (o *originTable) check(cmd *cobra.Command) error {
	names := originFields
	if o.names != "" {
		names = strings.Split(o.names, ",")
	}
	o.columns = nil
	var unknown []string
	for _, name := range names {
		if i := slices.Index(originFields, name); i >= 0 {
			o.columns = append(o.columns, i)
		} else {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return command.Usagef(cmd, "Unknown ListedOrigin field(s): %s", strings.Join(unknown, ", "))
	}
	return nil
}

func (o *originTable) print(a *command.App, origins []model.ListedOrigin) error {
	objects := make([]map[string]any, len(origins))
	var b strings.Builder
	add := func(row []string) { b.WriteString(pytext.RStrip(pytext.CSVRow(row)) + "\n") }
	row := make([]string, len(o.columns))
	if o.header {
		for i, column := range o.columns {
			row[i] = originFields[column]
		}
		add(row)
	}
	for i, origin := range origins {
		cells := originCells(origin)
		objects[i] = map[string]any{}
		for j, column := range o.columns {
			objects[i][originFields[column]], row[j] = cells[column].value, a.Line(cells[column].text)
		}
		add(row)
	}
	return a.Show(o.output, objects, b.String())
}
