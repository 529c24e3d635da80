package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// An error in a command line or configuration names the option or the place on standard error. The exit code is 2, or 1
// for the contents of a file. Standard output is empty.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	bad := configFile(t, "scheduler:\n  cls: postgresql\n  db: [s3cret]\n")
	broken := configFile(t, "scheduler: [\n")
	empty := configFile(t, "")
	remote := configFile(t, "scheduler: {cls: remote, url: http://u:s3cret@h/}\n")
	noDB := configFile(t, "scheduler:\n  cls: postgresql\n")
	other := configFile(t, "storage: {cls: remote}\n")
	noBrokers := configFile(t, "scheduler: {cls: postgresql, db: dbname=x}\njournal:\n  group_id: g\n")
	for _, tc := range []struct {
		args string
		code int
		want string // the end of standard error
	}{
		{"", 2, "      --versions                 versions of the swh components in this program\n"},
		{"nope", 2, "Error: No such command 'nope'.\n"},
		{"start-runer", 2, "Error: No such command 'start-runer'. Did you mean 'start-runner'?\n"},
		{"task ad", 2, "Error: No such command 'ad'. Did you mean 'add'?\n"},
		{"--databse x task", 2, "Error: No such option '--databse'. Did you mean '--database'?\n"},
		{"-x", 2, "Error: No such option '-x'.\n"},
		{"-C", 2, "Error: Option '--config-file' requires an argument.\n"},
		{"-l loud version", 2, "Error: Invalid value for '--log-level' / '-l': Log level loud unknown (in `loud`) needs to be one of notset, debug, info, warning, error, critical\n"},
		{"--log-format xml version", 2, "Error: Invalid value for '--log-format': 'xml' is not one of 'text', 'json'.\n"},
		{"start-runner --period often", 2, "Error: Invalid value for '--period' / '-p': 'often' is not a valid integer.\n"},
		{"start-runner extra", 2, "Error: Got unexpected extra argument (extra)\n"},
		{"-C nowhere.yml task-type list", 2, "Error: Invalid value for '--config-file' / '-C': File 'nowhere.yml' does not exist.\n"},
		{"-C . task-type list", 2, "Error: Invalid value for '--config-file' / '-C': File '.' is a directory.\n"},
		{"start-runner --lost-after 5", 2, "Error: Invalid value for '--lost-after': '5' is not a duration such as '2 days' or 36h.\n"},
		{"-d dbname=x rpc-serve --port 99999", 2, "Error: Invalid value for '--port': '99999' is not a valid port (0 to 65535).\n"},
		{"task-type list", 2, "Error: missing 'scheduler' configuration (name a file with SWH_CONFIG_FILENAME or --config-file, or a database with --database)\n"},
		{"-C " + other + " task-type list", 2, "or a database with --database)\n"},
		{"task add", 2, "Error: Missing argument 'TASK_TYPE_NAME'.\n"},
		{"task-type add a b", 2, "Error: Missing argument 'DESCRIPTION'.\n"},
		{"task-type add a b c d e", 2, "Error: Got unexpected extra arguments (d e)\n"},
		{"task list-pending", 2, "Error: Missing argument 'TASK_TYPES...'.\n"},
		{"task add x -p weekly", 2, "Error: Invalid value for '--policy' / '-p': 'weekly' is not one of 'recurring', 'oneshot'.\n"},
		{"task list-pending x -b someday", 2, "Error: Invalid value for '--before' / '-b': 'someday' is not a date such as 2030-01-31, 2030-01-31T12:30:00+01:00, 'Thu, 31 Jan 2030 12:30:00 +0100', tomorrow or 'in 2 days'.\n"},
		{"-C " + bad + " task-type list", 1, "swh-scheduler: " + bad + ":3:7: scheduler.db must be a text, not a list\n"},
		{"-C " + broken + " task-type list", 1, "swh-scheduler: " + broken + ":1: is not YAML: did not find expected node content\n"},
		{"-C " + empty + " task-type list", 1, "swh-scheduler: " + empty + ": is empty: expected a mapping with a scheduler section\n"},
		{"-C " + noDB + " task-type list", 1, "swh-scheduler: " + noDB + ":1: scheduler.db is missing: expected the address of a database, such as postgresql://swh@db.example/scheduler\n"},
		{"-C " + remote + " rpc-serve", 1, "swh-scheduler: swh-scheduler rpc-serve works on a database, and the configuration names an RPC server (scheduler.cls is remote); name the database with --database\n"},
		{"-C " + noBrokers + " journal-client", 1, "swh-scheduler: " + noBrokers + ":2: journal.brokers is missing: expected the addresses (host:port) of Kafka brokers\n"},
		{"-C " + noBrokers + " journal-client -m -3", 2, "Error: Invalid value for '--stop-after-objects' / '-m': -3 is negative.\n"},
	} {
		r := ours(t, strings.Fields(tc.args)...)
		if r.code != tc.code || !strings.HasSuffix(r.stderr, tc.want) || r.stdout != "" {
			t.Errorf("%q: exit code %d, want %d, and\n%s\nat the end of\n%s%s", tc.args, r.code, tc.code, tc.want, r.stderr, r.stdout)
		}
		if strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%q shows a password: %s", tc.args, r.stderr)
		}
	}
}

// SWH_CONFIG_FILENAME names the configuration. -C overrides it, and -d overrides both.
func TestConfigurationByOptionAndEnvironment(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	good := configFile(t, "scheduler: {cls: postgresql, db: '"+dsn+"'}\nunknwon: 1\n")
	bad := configFile(t, "scheduler: 1\n")
	remote := configFile(t, "scheduler: {cls: remote, url: http://h/}\n")
	for _, tc := range []struct {
		env  string
		args []string
		code int
	}{
		{"SWH_CONFIG_FILENAME=" + good, nil, 0},
		{"SWH_CONFIG_FILENAME=" + strings.TrimSuffix(good, ".yml"), nil, 0},
		{"SWH_CONFIG_FILENAME=" + bad, []string{"-C", good}, 0},
		{"SWH_CONFIG_FILENAME=" + good, []string{"--config-file", bad}, 1},
		{"SWH_CONFIG_FILENAME=" + filepath.Dir(good) + "/none", nil, 2},
		{"SWH_CONFIG_FILENAME=" + remote, nil, 1},
		{"SWH_CONFIG_FILENAME=" + remote, []string{"-d", dsn}, 0},
		{"SWH_CONFIG_FILENAME=", []string{"-d", dsn}, 0},
		{"SWH_CONFIG_FILENAME=", []string{"-d", dsn, "-u", "http://h/"}, 0},
		{"SWH_CONFIG_FILENAME=" + good, []string{"-u", "http://h/"}, 1},
		{"SWH_CONFIG_FILE=" + good, nil, 0},
		{"SWH_SCHEDULER_CONFIG_FILE=" + good, nil, 0},
		{"SWH_SCHEDULER_DATABASE=" + dsn, nil, 0},
		{"SWH_SCHEDULER_URL=http://h/", nil, 1},
	} {
		r := oursWith(t, []string{tc.env}, append(slices.Clone(tc.args), "task-type", "list")...)
		if r.code != tc.code {
			t.Errorf("%s %q: exit code %d, want %d\n%s", tc.env, tc.args, r.code, tc.code, r.stderr)
		}
	}
	r := ours(t, "-C", good, "task-type", "list")
	if !strings.Contains(r.stderr, good+":2:1: unknwon is not a known key") {
		t.Errorf("no warning of the unknown key in %q", r.stderr)
	}
	if r := ours(t, "-l", "error", "-C", good, "task-type", "list"); r.stderr != "" {
		t.Errorf("with --log-level error: %q", r.stderr)
	}
	if r := ours(t, "--log-format", "json", "-C", good, "task-type", "list"); !strings.HasPrefix(r.stderr, "{") {
		t.Errorf("with --log-format json: %q", r.stderr)
	}
}

// The words after swh, of which the Python scheduler is a part, are accepted, wherever their options are.
func TestWordsOfSwh(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	config := configFile(t, "scheduler: {cls: postgresql, db: '"+dsn+"'}\n")
	for _, words := range []string{
		"-C FILE scheduler task-type list", "--config-file FILE -l error scheduler task-type list", "--config-file=FILE scheduler --no-stdout task-type list",
		"scheduler -C FILE task-type list", "-lerror scheduler -d DSN task-type list", "--no-stdout scheduler -C FILE task-type list",
	} {
		args := strings.Fields(strings.NewReplacer("FILE", config, "DSN", dsn).Replace(words))
		if r := ours(t, args...); r.code != 0 || r.stdout != "Known task types:\n" {
			t.Errorf("%q: %+v", words, r)
		}
	}
	for words, want := range map[string]string{
		"scheduler scheduler": "No such command 'scheduler'", "-C scheduler task-type list": "File 'scheduler' does not exist",
		"scheduler": "Commands:", "scheduler nope": "No such command 'nope'",
	} {
		if r := ours(t, strings.Fields(words)...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v", words, r)
		}
	}
}

// --help and --version need no configuration and no service.
func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--help"}, {"-h"}, {"help"}, {"task", "-h"}, {"task", "add", "--help"}, {"start-runner", "--help"},
		{"--version"}, {"version"}, {"completion", "bash"},
	} {
		r := oursWith(t, []string{"SWH_CONFIG_FILENAME=/nonexistent"}, args...)
		if r.code != 0 || r.stderr != "" || r.stdout == "" {
			t.Errorf("%q: exit code %d, %d bytes of standard output, %q", args, r.code, len(r.stdout), r.stderr)
		}
	}
	if r := ours(t, "version"); !strings.HasPrefix(r.stdout, "swh-scheduler, version ") {
		t.Errorf("got %q", r.stdout)
	}
}

// Completion offers subcommands, the values of choices, and the database's task types and visit types. Without a
// database it offers no types, without a delay.
func TestCompletion(t *testing.T) {
	t.Parallel()
	dsn := testenv.PythonDatabase(t)
	execute(t, dsn, someTaskTypes)
	config := configFile(t, "scheduler: {cls: postgresql, db: '"+dsn+"'}\n")
	for _, tc := range []struct{ words, want string }{
		{"task sch", "schedule schedule_origins"},
		{"task add --policy ", "recurring oneshot"},
		{"task add ", "bare list-X list-x load-git"},
		{"task list -t ", "bare list-X list-x load-git"},
		{"task list-pending bare ", "bare list-X list-x load-git"},
		{"origin peek-next ", "git"},
		{"explain --type ", "git"},
	} {
		words := strings.Split(tc.words, " ")
		r := oursWith(t, []string{"SWH_CONFIG_FILENAME=" + config}, append([]string{"__complete"}, words...)...)
		var offered []string
		for line := range strings.Lines(r.stdout) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if !strings.HasPrefix(name, ":") {
				offered = append(offered, name)
			}
		}
		if got := strings.Join(offered, " "); r.code != 0 || got != tc.want {
			t.Errorf("%q: exit code %d, offered %q, want %q\n%s", tc.words, r.code, got, tc.want, r.stderr)
		}
	}
	if r := ours(t, "__complete", "-d", "host=127.0.0.1 port=1", "task", "add", ""); r.code != 0 || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("without a database: %+v", r)
	}
}
