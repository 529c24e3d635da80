package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (it is in Debian's package prometheus)\n%s", strings.Join(args, " "), err, out)
	}
}

// documented are the metrics of docs/reference/metrics.md, with their kinds.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page := testenv.Read(t, filepath.Join("..", "docs", "reference", "metrics.md"))
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

// Metrics follow Prometheus' naming: only counters end in _total. No label is one that Prometheus or its libraries
// set. No gauge counts over a period, as queries choose periods.
func TestMetricsAreNamedByConvention(t *testing.T) {
	t.Parallel()
	labels := documentedLabels(t)
	for name, kind := range documented(t) {
		ofHistogram := kind == "counter" && regexp.MustCompile("_(bucket|count|sum)$").MatchString(name)
		if !ofHistogram && (kind == "counter") != strings.HasSuffix(name, "_total") || strings.Contains(name, "_last_") {
			t.Errorf("the %s %s", kind, name)
		}
		for _, label := range labels[name] {
			if slices.Contains([]string{"quantile", "le", "job", "instance"}, label) && !ofHistogram {
				t.Errorf("%s has the label %s", name, label)
			}
		}
	}
}

// ofOneReplica matches the text before a gauge that several processes may export, and ofAll that before a counter, of
// which each process has its own.
var (
	ofOneReplica = regexp.MustCompile(`(?:max|min|group)(?: by \([a-z_, ]+\))? ?\((?:(?:deriv|last_over_time|increase)\()?$`)
	ofAll        = regexp.MustCompile(`(?:sum|max)(?: by \([a-z_, ]+\))? ?\((?:rate|increase)\($`)
)

// onceForAllReplicas checks that no figure counts twice with two replicas of a daemon, and none is missing. Replicas
// have the same gauges, of one queue or one database, and their own counters.
func onceForAllReplicas(t *testing.T, metrics map[string]string, where, expr string) {
	t.Helper()
	for _, at := range metricName.FindAllStringIndex(expr, -1) {
		name := expr[at[0]:at[1]]
		ofOneMember := name == "swh_scheduler_journal_lag_records" // each partition has one member
		if metrics[name] == "gauge" && !ofOneMember && !ofOneReplica.MatchString(expr[:at[0]]) {
			t.Errorf("%s: the gauge %s of each replica; max by (…) takes one: %s", where, name, expr)
		}
		if metrics[name] == "counter" && !ofAll.MatchString(expr[:at[0]]) {
			t.Errorf("%s: the counter %s of one replica; sum by (…) takes all: %s", where, name, expr)
		}
	}
}

// Alerts count a figure of several processes once.
func TestAlertsCountReplicasOnce(t *testing.T) {
	t.Parallel()
	text := testenv.Read(t, "prometheus/alerts.yml")
	metrics := documented(t)
	exprs := regexp.MustCompile(`(?s)expr: (.*?)\n    for:`).FindAllStringSubmatch(string(text), -1)
	if len(exprs) == 0 {
		t.Fatal("no alerts")
	}
	for _, m := range exprs {
		onceForAllReplicas(t, metrics, "alerts.yml", m[1])
	}
}

// panel is a panel of a dashboard.
type panel struct {
	ID      int
	Title   string
	Targets []struct{ Expr string }
}

// panels returns the panels of all dashboards.
func panels(t *testing.T) (all []panel) {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := testenv.Read(t, file)
		var dashboard struct {
			Title, UID string
			Panels     []panel
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if dashboard.Title == "" || dashboard.UID == "" || len(dashboard.Panels) == 0 {
			t.Errorf("%s is no dashboard", file)
		}
		all = append(all, dashboard.Panels...)
	}
	return all
}

// Prometheus accepts every query of the dashboards, and their metrics exist. Each shows the same figure with one
// replica of a daemon and with two.
func TestDashboards(t *testing.T) {
	t.Parallel()
	metrics := documented(t)
	var exprs []string
	seen := map[int]bool{}
	for _, panel := range panels(t) {
		if seen[panel.ID] || len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query, or the number of another", panel.Title)
		}
		seen[panel.ID] = true
		for _, target := range panel.Targets {
			onlyDocumented(t, metrics, panel.Title, target.Expr)
			onceForAllReplicas(t, metrics, panel.Title, target.Expr)
			exprs = append(exprs, target.Expr)
		}
	}
	path := filepath.Join(t.TempDir(), "dashboards_test.yml")
	writeYAML(t, path, twoWorlds(t, exprs))
	promtool(t, "test", "rules", path)
}

// exprTests are tests of expressions in promtool's format.
type exprTests struct {
	Tests []exprTest
}

type exprTest struct {
	Interval    string
	InputSeries []map[string]string `yaml:"input_series"`
	Exprs       []exprAssertion     `yaml:"promql_expr_test"`
}

type exprAssertion struct {
	Expr    string
	At      string           `yaml:"eval_time"`
	Samples []map[string]any `yaml:"exp_samples"`
}

// twoWorlds returns tests that each expression has values, equal with two instances (a, b) and with one, whose
// metrics are called one_….
func twoWorlds(t *testing.T, exprs []string) exprTests {
	t.Helper()
	test := exprTest{Interval: "1m"}
	used := regexp.MustCompile(`\b(?:swh_scheduler|process)_[a-z_]+`)
	selected := map[string][]string{"le": {"1", "60", "+Inf"}}
	names := map[string]bool{}
	for _, expr := range exprs {
		for _, m := range regexp.MustCompile(`(\w+)="(\w+)"`).FindAllStringSubmatch(expr, -1) {
			selected[m[1]] = append(selected[m[1]], m[2])
		}
		for _, name := range used.FindAllString(expr, -1) {
			names[name] = true
		}
		one := used.ReplaceAllString(expr, "one_$0")
		same := fmt.Sprintf("(count(abs((%s) - (%s)) < 1e-9) or vector(0)) - (count(%s) or vector(0))", expr, one, expr)
		test.Exprs = append(test.Exprs,
			exprAssertion{same, "90m", []map[string]any{{"labels": "{}", "value": 0}}},
			exprAssertion{fmt.Sprintf("count(%s) > bool 0", expr), "90m", []map[string]any{{"labels": "{}", "value": 1}}})
	}
	kinds, labels := documented(t), documentedLabels(t)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		counts := kinds[name] == "counter" || strings.HasSuffix(name, "_total")
		for i, set := range combinations(labels[name], selected) {
			values := func(rate int) string {
				if counts {
					return fmt.Sprintf("0+%dx90", rate*(i+1))
				}
				return fmt.Sprintf("%dx90", i+1)
			}
			add := func(name, instance, values string) {
				series := fmt.Sprintf(`%s{%s,job="any",instance=%q}`, name, set, instance)
				test.InputSeries = append(test.InputSeries, map[string]string{"series": strings.Replace(series, "{,", "{", 1), "values": values})
			}
			add("one_"+name, "a", values(2))
			// Each partition of the journal has one member.
			if name != "swh_scheduler_journal_lag_records" || i%2 == 0 {
				add(name, "a", values(1))
			}
			if name != "swh_scheduler_journal_lag_records" || i%2 == 1 {
				add(name, "b", values(1))
			}
		}
	}
	return exprTests{[]exprTest{test}}
}

// documentedLabels returns the labels of the metrics of docs/reference/metrics.md, including le.
func documentedLabels(t *testing.T) map[string][]string {
	t.Helper()
	page := testenv.Read(t, filepath.Join("..", "docs", "reference", "metrics.md"))
	labels := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(swh_scheduler_[a-z_]+)` \\| \\w+ \\| (.*?) ?\\|").FindAllStringSubmatch(string(page), -1) {
		of := strings.FieldsFunc(strings.ReplaceAll(m[2], "`", ""), func(r rune) bool { return r == ',' || r == ' ' })
		labels[m[1]], labels[m[1]+"_count"], labels[m[1]+"_sum"] = of, of, of
		labels[m[1]+"_bucket"] = append(slices.Clone(of), "le")
	}
	return labels
}

// combinations returns all sets of labels with two values each, or with the selected ones and one more; le has its
// own.
func combinations(labels []string, selected map[string][]string) []string {
	sets := []string{""}
	for _, label := range labels {
		values := append(slices.Clone(selected[label]), "x")
		switch {
		case label == "le":
			values = selected[label]
		case label == "daemon": // a process has one
		case len(values) == 1:
			values = append(values, "y")
		default:
			slices.Sort(values)
		}
		var more []string
		for _, set := range sets {
			for _, value := range slices.Compact(values) {
				more = append(more, strings.TrimPrefix(fmt.Sprintf("%s,%s=%q", set, label, value), ","))
			}
		}
		sets = more
	}
	return sets
}
