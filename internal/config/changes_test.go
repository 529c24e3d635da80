package config

import (
	"slices"
	"strings"
	"testing"
)

// Changed names the keys whose values differ, however they are written, and no key that only
// other programs read. A list is one value.
func TestChangedKeys(t *testing.T) {
	const before = `
scheduler: {cls: local, db: dbname=a, min_pool_conns: 1}
celery: {task_broker: "amqp://u:secret@mq//", task_modules: [a]}
queue_full_backoff: 60
shares: {load-git: {by: lister, weights: {github: 50}}}
scheduling_policy:
  git: [{policy: stop_after_success, weight: 1}]
storage: {cls: memory}
`
	load := func(text string) *Config {
		t.Helper()
		c, _, err := Load(write(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tc := range map[string]struct{ old, new, changed string }{
		"nothing":                  {"", "", ""},
		"written otherwise":        {"queue_full_backoff: 60", "# a comment\nqueue_full_backoff: 1:00\nlost_after: null", ""},
		"a number":                 {"backoff: 60", "backoff: 61", "queue_full_backoff"},
		"a password":               {"secret", "other", "celery.task_broker"},
		"a weight":                 {"github: 50", "github: 50, gitlab: 1", "shares.load-git.weights.gitlab"},
		"a list":                   {"weight: 1", "weight: 2", "scheduling_policy.git"},
		"a key that is gone":       {"queue_full_backoff: 60\n", "", "queue_full_backoff"},
		"keys of other components": {"task_modules: [a]", "task_modules: [b]", ""},
		"a section of others":      {"cls: memory", "cls: remote", ""},
		"two":                      {"dbname=a, min_pool_conns: 1}\n", "dbname=b}\nfailures_keep_date: yes\n", "failures_keep_date scheduler.db"},
	} {
		a, b := load(before), load(strings.Replace(before, tc.old, tc.new, 1))
		if got := strings.Join(Changed(a, b), " "); got != tc.changed {
			t.Errorf("%s: %q, want %q", name, got, tc.changed)
		}
	}
	a, b := load(before), load(strings.Replace(before, "dbname=a", "dbname=b", 1))
	a.UseDatabase("dbname=c")
	b.UseDatabase("dbname=c")
	if got := Changed(a, b); len(got) > 0 {
		t.Errorf("%q changed beside a database of the command line", got)
	}
	if !slices.Contains(Sections(), "scheduling_policy") {
		t.Errorf("sections: %q", Sections())
	}
}
