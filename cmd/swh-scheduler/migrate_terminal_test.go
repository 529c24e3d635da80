package main

import (
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// On a terminal that shows the log, migrate prints each step once; a pipe has the whole report.
func TestMigrateOnATerminal(t *testing.T) {
	t.Parallel()
	const step = "00350_work"
	dsn := testenv.PythonDatabase(t)
	migrated := func(args ...string) string {
		t.Helper()
		return showing(t, 200, nil, append([]string{"-d", dsn, "migrate"}, args...)...)
	}
	if text := migrated(); strings.Count(text, step) != 1 || !strings.Contains(text, " migrations: applied") {
		t.Error(text)
	}
	if text := migrated("--remove"); strings.Count(text, "schema scheduler_go") != 1 || !strings.Contains(text, ": removed") {
		t.Error(text)
	}
	if r := ours(t, "-d", dsn, "migrate"); r.code != 0 || strings.Count(r.stdout, step) != 1 {
		t.Errorf("%+v", r)
	}
}
