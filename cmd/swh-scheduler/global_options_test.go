package main

import (
	"strings"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Global options are allowed before a command, within its name, and after it. The last one counts, and options override
// the environment.
func TestGlobalOptionsAfterTheCommand(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	good := configFile(t, "scheduler: {cls: postgresql, db: '"+dsn+"'}\n")
	bad := configFile(t, "scheduler: 1\n")
	for _, words := range []string{
		"task-type list -C GOOD", "task-type --config-file GOOD list", "-C BAD task-type list --config-file=GOOD",
		"task-type list -d DSN -C GOOD", "-u http://h/ task-type list --database DSN -C GOOD", "task-type list --no-stdout -lerror -CGOOD",
	} {
		args := strings.Fields(strings.NewReplacer("GOOD", good, "BAD", bad, "DSN", dsn).Replace(words))
		if r := oursWith(t, []string{"SWH_SCHEDULER_CONFIG_FILE=" + bad, "SWH_SCHEDULER_TASK_TYPE_LIST_DATABASE=nowhere"}, args...); r.code != 0 || r.stdout != "Known task types:\n" {
			t.Errorf("%q: %+v", words, r)
		}
	}
	for words, want := range map[string]string{
		"task list -l loud":               "Invalid value for '--limit' / '-l': 'loud' is not a valid integer.",
		"task list --log-level loud":      "Invalid value for '--log-level' / '-l': Log level loud unknown",
		"task-type list --log-format xml": "Invalid value for '--log-format': 'xml' is not one of 'text', 'json'.",
		"task-type list --config-file":    "Option '--config-file' requires an argument.",
		"task-type list --metrics-adr x":  "No such option '--metrics-adr'. Did you mean '--metrics-addr'?",
		"task-type list -C nowhere.yml":   "Invalid value for '--config-file' / '-C': File 'nowhere.yml' does not exist.",
		"task schedule -d xx tasks.csv":   `--delimiter: "xx" is not one character`,
	} {
		if r := ours(t, strings.Fields(words)...); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", words, r, want)
		}
	}
	if r := ours(t, "task-type", "list", "--help"); strings.Contains(r.stdout, "--database") {
		t.Errorf("help of a command lists the global options:\n%s", r.stdout)
	}
}

func TestMetricsAddrAfterTheCommand(t *testing.T) {
	t.Parallel()
	p := start(t, "start-listener", "-C", configFile(t, services(t)), "--metrics-addr", "127.0.0.1:0", "--log-format", "json")
	p.logs(t, `"msg":"serving metrics"`)
	p.stop(t, syscall.SIGTERM)
}
