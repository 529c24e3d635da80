package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
)

// originColumn is one field of listed origins: as the peer's CSV has it, and as a
// value for JSON.
type originColumn struct {
	name  string
	text  func(o scheduler.ListedOrigin, zone *time.Location) string
	value func(o scheduler.ListedOrigin) any
}

// originColumns are in the order of the peer's model.
var originColumns = []originColumn{
	{
		"lister_id",
		func(o scheduler.ListedOrigin, _ *time.Location) string { return o.ListerID.String() },
		func(o scheduler.ListedOrigin) any { return o.ListerID },
	}, {
		"url",
		func(o scheduler.ListedOrigin, _ *time.Location) string { return o.URL },
		func(o scheduler.ListedOrigin) any { return o.URL },
	}, {
		"visit_type",
		func(o scheduler.ListedOrigin, _ *time.Location) string { return o.VisitType },
		func(o scheduler.ListedOrigin) any { return o.VisitType },
	}, {
		"extra_loader_arguments",
		func(o scheduler.ListedOrigin, _ *time.Location) string {
			text, err := pytext.Repr(o.ExtraLoaderArguments)
			if err != nil {
				return string(o.ExtraLoaderArguments)
			}
			return text
		},
		func(o scheduler.ListedOrigin) any { return o.ExtraLoaderArguments },
	}, {
		"last_update",
		func(o scheduler.ListedOrigin, zone *time.Location) string { return dateOrNone(o.LastUpdate, zone) },
		func(o scheduler.ListedOrigin) any { return o.LastUpdate },
	}, {
		"is_fork",
		func(o scheduler.ListedOrigin, _ *time.Location) string { return orNone(o.IsFork, pytext.Bool) },
		func(o scheduler.ListedOrigin) any { return o.IsFork },
	}, {
		"forked_from_url",
		func(o scheduler.ListedOrigin, _ *time.Location) string {
			return orNone(o.ForkedFromURL, func(s string) string { return s })
		},
		func(o scheduler.ListedOrigin) any { return o.ForkedFromURL },
	}, {
		"enabled",
		func(o scheduler.ListedOrigin, _ *time.Location) string { return pytext.Bool(o.Enabled) },
		func(o scheduler.ListedOrigin) any { return o.Enabled },
	}, {
		"first_seen",
		func(o scheduler.ListedOrigin, zone *time.Location) string { return dateOrNone(&o.FirstSeen, zone) },
		func(o scheduler.ListedOrigin) any { return o.FirstSeen },
	}, {
		"last_seen",
		func(o scheduler.ListedOrigin, zone *time.Location) string { return dateOrNone(&o.LastSeen, zone) },
		func(o scheduler.ListedOrigin) any { return o.LastSeen },
	},
}

// dateOrNone is str of a datetime or of None.
func dateOrNone(t *time.Time, zone *time.Location) string {
	return orNone(t, func(t time.Time) string { return pytext.Datetime(t.In(zone)) })
}

// originTable prints origins, all columns or some: as CSV, with a header or
// without, or as JSON.
type originTable struct {
	fields  string
	header  bool
	output  string
	columns []originColumn
}

func (o *originTable) flags(flags *pflag.FlagSet) {
	o.header, o.output = true, "text"
	flags.StringVarP(&o.fields, "fields", "f", "", "`FIELDS` of listed origins to print, joined by commas (default all)")
	pair(flags, &o.header, "with-header", "without-header", "print a header (default)", "print no header")
	outputFlag(flags, &o.output)
}

// check reads which fields are wanted, before anything is done.
func (o *originTable) check(cmd *cobra.Command) error {
	o.columns = originColumns
	if o.fields == "" {
		return nil
	}
	o.columns = nil
	var unknown []string
	for name := range strings.SplitSeq(o.fields, ",") {
		i := slices.IndexFunc(originColumns, func(c originColumn) bool { return c.name == name })
		if i < 0 {
			unknown = append(unknown, name)
			continue
		}
		o.columns = append(o.columns, originColumns[i])
	}
	if unknown != nil {
		return usagef(cmd, "Unknown ListedOrigin field(s): %s", strings.Join(unknown, ", "))
	}
	return nil
}

func (o *originTable) print(a *app, origins []scheduler.ListedOrigin, zone *time.Location) error {
	if o.output == "json" {
		objects := make([]map[string]any, len(origins))
		for i, origin := range origins {
			objects[i] = map[string]any{}
			for _, c := range o.columns {
				objects[i][c.name] = c.value(origin)
			}
		}
		return a.printJSON(objects)
	}
	var b strings.Builder
	row := make([]string, len(o.columns))
	add := func(text func(originColumn) string) {
		for i, c := range o.columns {
			row[i] = text(c)
		}
		b.WriteString(pytext.RStrip(pytext.CSVRow(row)))
		b.WriteByte('\n')
	}
	if o.header {
		add(func(c originColumn) string { return c.name })
	}
	for _, origin := range origins {
		add(func(c originColumn) string { return c.text(origin, zone) })
	}
	return a.print(b.String())
}
