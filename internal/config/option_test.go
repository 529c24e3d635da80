package config

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/yaml11"
)

// An option sets a value by its path, as in the Python scheduler. It overrides the file, adds missing sections, and
// works without a file.
func TestOptionsSetWhatThePythonSchedulerSets(t *testing.T) {
	t.Parallel()
	type set struct {
		File    string   `json:"file"`
		Options []string `json:"options"`
	}
	sets := []set{
		{"{}", []string{"a=1"}}, {"{}", []string{" a.b.c =x"}}, {"a: {b: 1, c: 2}", []string{"a.b=[1, {x: yes}]", "a.d=", "a.b=3"}},
		{"a: 1", []string{"a={b: c}", "a.d=012"}}, {"x: &x {k: 1}\ny: *x\nz: {<<: *x, l: 2}", []string{"y.k=2", "z.k=3=4"}},
		{"x: {n: {k: 1}}\nz: {<<: {n: {k: 1}}}", []string{"z.n.k=2"}}, {"a: {b: 1}", []string{"a=null"}},
	}
	input, err := json.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Python(t), "-c", `
import json, sys, types, yaml, tempfile
from swh.core.cli import setup_config, validate_options
class Context(types.SimpleNamespace):
    def ensure_object(self, kind): pass
for s in json.load(sys.stdin):
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(s["file"]); f.flush()
        ctx = Context(obj={}, info_name="swh")
        setup_config(ctx, f.name, validate_options(None, None, s["options"]))
        print(json.dumps(ctx.obj["config"], sort_keys=True))
`)
	cmd.Stdin = strings.NewReader(string(input))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		root, err := yaml11.Parse([]byte(sets[i].File))
		for _, option := range sets[i].Options {
			if err == nil {
				err = setOption(root, option)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		text, err := yaml11.JSON(root)
		if err != nil || json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
			t.Fatal(err, text)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%+v: %s", sets[i], diff)
		}
	}
}

// An error about an option names the option, and doesn't contain its value.
func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		"s3cret":                       "--option: must be KEY=VALUE",
		"scheduler.db=[s3cret":         "--option: scheduler.db is not YAML: line 1: did not find expected ',' or ']'",
		"scheduler.db.s3cret=x":        "--option: scheduler.db is a text, not a mapping",
		"scheduler.db={s3cret: 1}":     "--option: scheduler.db must be a text, not a mapping",
		"amqp://u:s3cret@h/.x=[":       "--option: (a key).x is not YAML: ",
		"journal.batch_size=s3cret":    "--option: journal.batch_size must be a whole number of at least 1",
		"journal={group_id: [s3cret]}": "--option: journal.group_id must be a text, not a list",
	} {
		_, _, err := parse("F", []byte("scheduler: {cls: local, db: x}"), option)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", option, err, want)
		}
	}
	if _, warnings, err := parse("F", []byte("{}"), "sheduler={db: x}"); err == nil || err.Error() != "--option: sheduler is not a known key (did you mean scheduler?)" {
		t.Error(warnings, err)
	}
	if _, warnings, err := parse("F", []byte("{}"), "unknwon=1"); err != nil || len(warnings) != 1 || warnings[0].String() != "--option: unknwon is not a known key; it is ignored" {
		t.Error(warnings, err)
	}
	if c, _, err := Load("", "scheduler={cls: remote, url: x}", "sentry.dsn=y"); err != nil || c.Scheduler.URL != "x" || c.Sentry.DSN != "y" || c.File != "" {
		t.Error(c, err)
	}
}
