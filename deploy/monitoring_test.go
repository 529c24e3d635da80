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

// documented are the metrics of docs/metrics.md, with their kinds.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_[a-z_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		metrics[m[1]] = m[2]
		if m[2] == "histogram" {
			metrics[m[1]+"_bucket"], metrics[m[1]+"_count"], metrics[m[1]+"_sum"] = "counter", "counter", "counter"
		}
	}
	return metrics
}

var metricName = regexp.MustCompile(`swh_scheduler_[a-z_]+`)

func onlyDocumented(t *testing.T, metrics map[string]string, where, expr string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expr, -1) {
		if metrics[name] == "" {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// ofOneReplica is what comes before a gauge that several processes may have.
var ofOneReplica = regexp.MustCompile(`(?:max|min)(?: by \([a-z_, ]+\))? ?\((?:deriv\()?$`)

// onceForAllReplicas checks that no figure counts twice if a daemon runs twice: both have the
// same gauges, of one queue or one database.
func onceForAllReplicas(t *testing.T, metrics map[string]string, where, expr string) {
	t.Helper()
	for _, at := range metricName.FindAllStringIndex(expr, -1) {
		name := expr[at[0]:at[1]]
		ofOneMember := name == "swh_scheduler_journal_lag_records" // a partition has one
		if metrics[name] == "gauge" && !ofOneMember && !ofOneReplica.MatchString(expr[:at[0]]) {
			t.Errorf("%s: the gauge %s of each replica; max by (…) takes one: %s", where, name, expr)
		}
	}
}

// Alerts take a figure that several processes have once.
func TestAlertsCountReplicasOnce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	metrics := documented(t)
	exprs := regexp.MustCompile(`(?s)expr: (.*?)\n    for:`).FindAllStringSubmatch(string(text), -1)
	if len(exprs) == 0 {
		t.Fatal("no alerts")
	}
	for _, m := range exprs {
		onceForAllReplicas(t, metrics, "alerts.yml", m[1])
	}
}

// Every query of the dashboards is one that Prometheus understands, of metrics that
// there are, and shows the same figure with one replica of a daemon and with two.
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
				onceForAllReplicas(t, metrics, panel.Title, target.Expr)
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
