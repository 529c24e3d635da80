package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// One command gives the repository its public home: all modules resolve by their new path, and nothing is left of the
// old path and address.
func TestHome(t *testing.T) {
	t.Parallel()
	copied := t.TempDir()
	run := func(directory, command string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
		cmd.Dir = directory
		cmd.Env = append(os.Environ(), "COPIED="+copied, "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
		var diagnostics strings.Builder // such as Go's downloads
		cmd.Stderr = &diagnostics
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", command, err, out, &diagnostics)
		}
		return string(out)
	}
	run("..", `git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$COPIED"`)
	run(copied, `git init -q . && git add --all
		deploy/release/home gitlab.example.net/swh/scheduler https://docs.example.net/scheduler`)

	for _, module := range []string{".", "test", "deploy/check", "deploy/packages"} {
		for _, name := range strings.Fields(run(filepath.Join(copied, module), "go list ./...")) {
			if !strings.HasPrefix(name, "gitlab.example.net/swh/scheduler") {
				t.Errorf("module %s: the package %s keeps its path", module, name)
			}
		}
	}
	// Imports resolve, those of tests too.
	run(copied, "go list -test -deps ./... >/dev/null")

	old := regexp.MustCompile(`(?m)^.*(["[]|go_type: |^module )swh-scheduler/(celery|cmd|deploy|docs|internal|journal|listener|recurrent|runner|sql|test)\b.*$|^.*https://example\.org/swh-scheduler/.*$`)
	files := strings.FieldsFunc(run(copied, "git ls-files -z"), func(r rune) bool { return r == 0 })
	for _, name := range files {
		if name == "deploy/home_test.go" || name == "deploy/release/home" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(copied, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range old.FindAll(content, 3) {
			t.Errorf("%s: %s", name, line)
		}
	}
	if !strings.Contains(run(copied, "grep -h runbook_url: deploy/prometheus/alerts.yml"), " https://docs.example.net/scheduler/docs/how-to/runbooks.md#daemondown") {
		t.Error("the alerts' runbooks have no new address")
	}

	for _, wrong := range []string{"", "gitlab.example.net/swh", "'Swh Scheduler' https://docs.example.net/s", "a.example/b http://docs.example.net", "a.example/b 'https://docs.example.net/x|y'"} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "deploy/release/home "+wrong)
		cmd.Dir = copied
		if out, err := cmd.CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "usage: home MODULE ADDRESS") {
			t.Errorf("%q: %v %s", wrong, err, out)
		}
	}
}
