package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (it is in Debian's package prometheus)\n%s", strings.Join(args, " "), err, out)
	}
}

// documented are the metrics of docs/metrics.md.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_[a-z_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		metrics[m[1]] = true
		if m[2] == "histogram" {
			metrics[m[1]+"_bucket"], metrics[m[1]+"_count"], metrics[m[1]+"_sum"] = true, true, true
		}
	}
	return metrics
}

var metricName = regexp.MustCompile(`swh_scheduler_[a-z_]+`)

func onlyDocumented(t *testing.T, metrics map[string]bool, where, expr string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expr, -1) {
		if !metrics[name] {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// Every query of the dashboards is one that Prometheus understands, of metrics that
// there are.
func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	metrics, recorded := documented(t), strings.Builder{}
	fmt.Fprintln(&recorded, "groups:\n- name: dashboards\n  rules:")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Title, UID string
			Panels     []struct {
				ID      int
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if dashboard.Title == "" || dashboard.UID == "" || len(dashboard.Panels) == 0 {
			t.Errorf("%s is no dashboard", file)
		}
		seen := map[int]bool{}
		for _, panel := range dashboard.Panels {
			if seen[panel.ID] || len(panel.Targets) == 0 {
				t.Errorf("%s: panel %q has no query, or the number of another", file, panel.Title)
			}
			seen[panel.ID] = true
			for i, target := range panel.Targets {
				onlyDocumented(t, metrics, panel.Title, target.Expr)
				fmt.Fprintf(&recorded, "  - record: panel:%d:%d\n    expr: %s\n", panel.ID, i, target.Expr)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "dashboards.yml")
	if err := os.WriteFile(path, []byte(recorded.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
