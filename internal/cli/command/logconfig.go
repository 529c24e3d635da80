package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/yaml11"
)

// readLogConfig sets the log's level and form from the file of --log-config. ignored are the keys of the file that
// have no effect.
func (a *App) readLogConfig(root *cobra.Command) (ignored []string, err error) {
	path := a.Globals.logConfig
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Usagef(root, "Invalid value for '--log-config': Path '%s' does not exist or can't be read.", path)
	}
	c, err := parseLogConfig(text)
	if err != nil {
		return nil, failure{fmt.Errorf("--log-config %s: %w", path, err)}
	}
	a.Level.Set(c.level)
	if c.json && a.Globals.logFormat == "" {
		a.Globals.logFormat, a.logFields = "json", c.fields
	}
	return c.ignored, nil
}

// logConfig is the part of a configuration of Python's logging that has an effect on this program's log.
type logConfig struct {
	level   slog.Level
	json    bool     // a formatter writes JSON
	fields  []string // fields of that formatter's format, such as levelname
	ignored []string // paths of keys
}

// ourLoggers are the names of the Python scheduler's loggers; "" is the root. The last one that sets a level wins;
// the handlers of all are used.
var ourLoggers = []string{"", "swh", "swh.scheduler"}

// dictConfig is a dictionary for Python's logging.config.dictConfig.
type dictConfig struct {
	Version    int
	Formatters map[string]map[string]any
	Handlers   map[string]map[string]any
	Loggers    map[string]map[string]any
	Root       map[string]any
}

// parseLogConfig reads the YAML of a dictConfig.
func parseLogConfig(text []byte) (logConfig, error) {
	c := logConfig{level: slog.LevelWarn} // Python's default
	node, err := yaml11.Parse(text)
	if err != nil {
		return c, fmt.Errorf("is not %s", strings.Replace(err.Error(), "yaml", "YAML", 1))
	}
	var file dictConfig
	var keys map[string]any
	asJSON, err := yaml11.JSON(node)
	if err != nil || json.Unmarshal(asJSON, &keys) != nil || json.Unmarshal(asJSON, &file) != nil || file.Version != 1 {
		return c, errors.New("is not a configuration of Python's logging (a mapping with version: 1)")
	}
	c.ignoreAllBut(keys, "", "version", "formatters", "handlers", "loggers", "root", "disable_existing_loggers")
	c.readFormatters(file, c.readHandlers(file, c.readLoggers(file)))
	slices.Sort(c.ignored)
	return c, nil
}

// readLoggers sets the level of our loggers, and returns the names of their handlers.
func (c *logConfig) readLoggers(file dictConfig) (handlers map[string]bool) {
	handlers = map[string]bool{}
	for _, name := range ourLoggers {
		logger, path := file.Loggers[name], "loggers."+name+"."
		if name == "" {
			logger, path = file.Root, "root."
		}
		c.ignoreAllBut(logger, path, "level", "handlers", "propagate")
		if level, ok := c.levelOf(logger, path); ok {
			c.level = level
		}
		used, _ := logger["handlers"].([]any)
		for _, handler := range used {
			name, _ := handler.(string)
			handlers[name] = true
		}
	}
	for name := range file.Loggers {
		if !slices.Contains(ourLoggers, name) {
			c.ignored = append(c.ignored, "loggers."+name)
		}
	}
	return handlers
}

// readHandlers raises the level to the lowest of the used handlers, and returns the names of their formatters.
func (c *logConfig) readHandlers(file dictConfig, used map[string]bool) (formatters map[string]bool) {
	formatters = map[string]bool{}
	lowest := slog.LevelError + 1
	for name, handler := range file.Handlers {
		path := "handlers." + name
		stream, _ := handler["stream"].(string)
		if !used[name] || handler["class"] != "logging.StreamHandler" || stream != "" && stream != "ext://sys.stderr" {
			c.ignored = append(c.ignored, path)
			if !used[name] {
				continue
			}
		} else {
			c.ignoreAllBut(handler, path+".", "class", "stream", "level", "formatter")
		}
		level, ok := c.levelOf(handler, path+".")
		if !ok {
			level = slog.LevelDebug
		}
		lowest = min(lowest, level)
		formatter, _ := handler["formatter"].(string)
		formatters[formatter] = true
	}
	if lowest <= slog.LevelError {
		c.level = max(c.level, lowest)
	}
	return formatters
}

// readFormatters sets json if a used formatter writes JSON.
func (c *logConfig) readFormatters(file dictConfig, used map[string]bool) {
	for name, formatter := range file.Formatters {
		class := fmt.Sprint(formatter["class"], formatter["()"])
		isJSON := strings.Contains(strings.ToLower(class), "json")
		c.json = c.json || isJSON && used[name]
		format, _ := formatter["format"].(string)
		if isJSON && used[name] {
			c.fields = append(c.fields, fieldsOf(format)...)
		}
		if _, hasFormat := formatter["format"]; !isJSON || !used[name] || len(formatter) > 2 || len(formatter) == 2 && !hasFormat {
			c.ignored = append(c.ignored, "formatters."+name)
		}
	}
}

// ignoreAllBut records the keys of a part that are not among known.
func (c *logConfig) ignoreAllBut(part map[string]any, path string, known ...string) {
	for key := range maps.Keys(part) {
		if !slices.Contains(known, key) {
			c.ignored = append(c.ignored, path+key)
		}
	}
}

// levelOf returns the level that a part of the file sets, by name or number; ok is false if it sets none, or NOTSET.
func (c *logConfig) levelOf(part map[string]any, path string) (level slog.Level, ok bool) {
	switch set := part["level"].(type) {
	case nil:
	case float64:
		return slog.Level(set*0.4 - 8), set > 0 // DEBUG is 10 in Python and -4 in slog; ERROR is 40 and 8
	case string:
		name := strings.ToLower(set)
		level, ok = logLevels[name]
		if !ok {
			c.ignored = append(c.ignored, path+"level")
		}
		return level, ok && name != "notset"
	}
	return 0, false
}
