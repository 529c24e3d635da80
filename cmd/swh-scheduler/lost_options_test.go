package main

import (
	"fmt"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A start-runner that gives up no runs says so if its options ask for it.
func TestLostOptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\n", testenv.Database(t), testenv.RabbitMQ(t).URL))
	for _, options := range []string{"--with-priority --lost-after 1h", "--lost-before 2030-01-01"} {
		r := ours(t, append([]string{"-C", config, "start-runner"}, strings.Fields(options)...)...)
		if r.code != 0 || !strings.Contains(r.stderr, "have no effect here") {
			t.Errorf("start-runner %s: %+v", options, r)
		}
	}
	if r := ours(t, "-C", config, "start-runner", "--with-priority"); strings.Contains(r.stderr, "no effect") {
		t.Errorf("without these options: %+v", r)
	}
}
