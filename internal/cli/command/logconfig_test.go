package command

import (
	"encoding/json"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Our log level is the level at which Python logs messages of swh.scheduler under the same configuration. If a formatter
// in use writes JSON, so do we. Settings without effect are named.
func TestLogConfig(t *testing.T) {
	t.Parallel()
	const console = "formatters: {f: {format: '%(message)s'}}\nhandlers: {c: {class: logging.StreamHandler, formatter: f}, d: {class: logging.StreamHandler, level: ERROR}}\n"
	const asJSON = "formatters: {j: {class: pythonjsonlogger.jsonlogger.JsonFormatter}}\nhandlers: {c: {class: logging.StreamHandler, formatter: j, stream: ext://sys.stderr}}\n"
	tests := []struct {
		text    string
		level   slog.Level
		json    bool
		ignored string
	}{
		{console + "root: {level: DEBUG, handlers: [c]}", slog.LevelDebug, false, "formatters.f handlers.d"},
		{console + "root: {level: DEBUG, handlers: [d]}", slog.LevelError, false, "formatters.f handlers.c"},
		{console + "root: {level: INFO, handlers: [c, d]}", slog.LevelInfo, false, "formatters.f"},
		{console + "root: {handlers: [c]}\nloggers: {swh: {level: 10}, azure: {level: ERROR}}", slog.LevelDebug, false, "formatters.f handlers.d loggers.azure"},
		{console + "root: {handlers: [c]}", slog.LevelWarn, false, "formatters.f handlers.d"},
		{console + "root: {level: ERROR, handlers: [c]}\nloggers: {swh: {level: INFO}, swh.scheduler: {level: NOTSET, handlers: [d]}}", slog.LevelInfo, false, "formatters.f"},
		{console + "root: {level: ERROR}\nloggers: {swh.scheduler: {level: DEBUG, handlers: [d, c], filters: []}}", slog.LevelDebug, false, "formatters.f loggers.swh.scheduler.filters"},
		{asJSON + "root: {level: INFO, handlers: [c]}\ndisable_existing_loggers: no", slog.LevelInfo, true, ""},
		{asJSON + "root: {level: INFO}\nfilters: {}", slog.LevelInfo, false, "filters formatters.j handlers.c"},
		{"handlers: {f: {class: logging.FileHandler, filename: /dev/null, level: 40}}\nroot: {level: INFO, handlers: [f]}", slog.LevelError, false, "handlers.f"},
	}
	var texts []string
	for _, tc := range tests {
		texts = append(texts, "version: 1\n"+tc.text)
		c, err := parseLogConfig([]byte(texts[len(texts)-1]))
		if got := strings.Join(c.ignored, " "); err != nil || c.level != tc.level || c.json != tc.json || got != tc.ignored {
			t.Errorf("%s\n%+v, %v", tc.text, c, err)
		}
	}
	for _, text := range []string{"", "root: {level: INFO}", "version: 2", "version: 1\nroot: 5", "[", "version: 1\nhandlers: {a: 1}"} {
		if _, err := parseLogConfig([]byte(text)); err == nil {
			t.Errorf("%q is a configuration of logging?", text)
		}
	}

	// The wanted levels come from Python's logging.
	cmd := exec.Command(testenv.Python(t), "-c", `
import json, logging.config, sys, types, yaml
module = types.ModuleType("pythonjsonlogger.jsonlogger")
module.JsonFormatter = logging.Formatter
sys.modules["pythonjsonlogger"] = package = types.ModuleType("pythonjsonlogger")
sys.modules["pythonjsonlogger.jsonlogger"] = package.jsonlogger = module
for text in json.load(sys.stdin):
    config = yaml.safe_load(text)
    for name in "swh", "swh.scheduler":
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        logger.handlers.clear()
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    logging.config.dictConfig({**config, "disable_existing_loggers": False})
    logger, written = logging.getLogger("swh.scheduler"), []
    for level in "DEBUG", "INFO", "WARNING", "ERROR":
        n = logging.getLevelName(level)
        at = logger
        while at:
            if logger.isEnabledFor(n) and any(n >= h.level for h in at.handlers): written.append(level)
            at = at.parent
    print(written[0] if written else "none")
`)
	input, _ := json.Marshal(texts)
	cmd.Stdin = strings.NewReader(string(input))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want []string
	for _, tc := range tests {
		want = append(want, strings.Replace(tc.level.String(), "WARN", "WARNING", 1))
	}
	want[8] = "none" // Python logs nothing without a handler
	if got := strings.Fields(string(out)); !slices.Equal(got, want) {
		t.Errorf("in Python the levels are %q, want %q", got, want)
	}
}

// With a format, JSON has exactly the fields of Python's logging that the format names. Without a format, it has slog's
// fields.
func TestJSONLogHasTheFieldsOfTheFormat(t *testing.T) {
	t.Parallel()
	c, err := parseLogConfig([]byte(`{"version": 1, "formatters": {"default": {"class": "pythonjsonlogger.jsonlogger.JsonFormatter",
		"format": "[%(asctime)s: %(levelname)s/%(processName)s-%(process)d %(threadName)s(%(pathname)s)]%(name)s %(message)s"}},
		"handlers": {"console": {"class": "logging.StreamHandler", "formatter": "default"}}, "root": {"level": "INFO", "handlers": ["console"]}}`))
	if err != nil || !c.json || len(c.ignored) > 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, tc := range []struct {
		fields     []string
		want, hide string
	}{
		{c.fields, `"levelname":"WARNING","message":"odd","name":"swh.scheduler","process":0,"processName":"MainProcess","level":"x","queue":"q"`, "time msg pathname"},
		{fieldsOf("%(message)s"), `"message":"odd","level":"x","queue":"q"`, "asctime levelname process"},
		{nil, `"level":"WARN","msg":"odd","level":"x","queue":"q"`, "levelname message"},
	} {
		var b strings.Builder
		jsonLog(&b, slog.LevelInfo, tc.fields).Warn("odd", "level", "x", "queue", "q")
		line := regexp.MustCompile(`"process":\d+`).ReplaceAllString(b.String(), `"process":0`)
		if !strings.Contains(line, tc.want) {
			t.Errorf("%v: %s", tc.fields, line)
		}
		for _, name := range strings.Fields(tc.hide) {
			if strings.Contains(line, `"`+name+`":`) {
				t.Errorf("%v: %s in %s", tc.fields, name, line)
			}
		}
	}
}
