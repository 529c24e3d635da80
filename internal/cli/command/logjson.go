package command

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
)

// formatFields matches the names of fields in a format of Python's logging, as python-json-logger reads them.
var formatFields = regexp.MustCompile(`%\((\w+)\)`)

// fieldsOf returns the names of fields in a format of Python's logging.
func fieldsOf(format string) (fields []string) {
	for _, m := range formatFields.FindAllStringSubmatch(format, -1) {
		fields = append(fields, m[1])
	}
	return fields
}

// levelNames are Python's names of the levels that are logged here.
var levelNames = map[slog.Level]string{slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARNING", slog.LevelError: "ERROR"}

// jsonLog returns a log whose lines are JSON objects. With fields of Python's logging, each line has those of them
// that exist here, under Python's names, as python-json-logger writes them; it has none of slog's own names.
func jsonLog(w io.Writer, level slog.Leveler, fields []string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if len(fields) == 0 {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	named := map[string]func(slog.Attr) slog.Attr{
		slog.TimeKey: func(a slog.Attr) slog.Attr {
			return slog.String("asctime", a.Value.Time().Format("2006-01-02 15:04:05,000"))
		},
		slog.LevelKey: func(a slog.Attr) slog.Attr {
			level, _ := a.Value.Any().(slog.Level)
			return slog.String("levelname", cmp.Or(levelNames[level], level.String()))
		},
		slog.MessageKey: func(a slog.Attr) slog.Attr { return slog.Attr{Key: "message", Value: a.Value} },
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		rename := named[a.Key]
		if rename == nil || len(groups) > 0 || !builtIn(a) {
			return a
		}
		if a = rename(a); !slices.Contains(fields, a.Key) && a.Key != "message" {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewJSONHandler(w, o))
	for _, a := range []slog.Attr{slog.String("name", "swh.scheduler"), slog.Int("process", os.Getpid()), slog.String("processName", "MainProcess")} {
		if slices.Contains(fields, a.Key) {
			log = log.With(a)
		}
	}
	return log
}

// builtIn reports whether an attribute is slog's own one of that key, and not one that a line adds.
func builtIn(a slog.Attr) bool {
	_, isLevel := a.Value.Any().(slog.Level)
	return a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime || a.Key == slog.LevelKey && isLevel || a.Key == slog.MessageKey
}
