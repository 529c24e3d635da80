package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/testenv"
)

type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// alertRules is a file of alerts in Prometheus' format.
type alertRules struct {
	Groups []alertGroup
}

type alertGroup struct {
	Name  string
	Rules []alert
}

// alertTests is a file of tests in promtool's format.
type alertTests struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []alertTest
}

type alertTest struct {
	Name        string
	Interval    string
	InputSeries []map[string]string `yaml:"input_series"`
	Assertions  []alertAssertion    `yaml:"alert_rule_test"`
}

type alertAssertion struct {
	At     time.Duration   `yaml:"eval_time"`
	Alert  string          `yaml:"alertname"`
	Alerts []expectedAlert `yaml:"exp_alerts"`
}

type expectedAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text := testenv.Read(t, path)
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func writeYAML(t *testing.T, path string, v any) {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func readAlerts(t *testing.T) (all []alert) {
	t.Helper()
	var file alertRules
	readYAML(t, "prometheus/alerts.yml", &file)
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// Prometheus accepts the alerts, and their metrics exist. Each has a section in the runbooks and a row in the table
// of tried alerts.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "prometheus/alerts.yml")
	promtool(t, "test", "rules", "prometheus/alerts_test.yml")
	page := testenv.Read(t, filepath.Join("..", "docs", "how-to", "runbooks.md"))
	tried := string(testenv.Read(t, filepath.Join("..", "docs", "devel", "evidence", "alerts.md")))
	metrics, sections := documented(t), strings.Count(string(page), "\n## ")
	for _, a := range readAlerts(t) {
		sections--
		onlyDocumented(t, metrics, a.Alert, a.Expr)
		_, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "runbooks.md#")
		if anchor != strings.ToLower(a.Alert) || !strings.Contains(string(page), "\n## "+a.Alert+"\n") {
			t.Errorf("%s has no section in the runbooks, or its address %q is another", a.Alert, a.Annotations["runbook_url"])
		}
		if n := strings.Count(tried, "\n| `"+a.Alert+"` |"); n != 1 {
			t.Errorf("%s has %d rows in the table of alerts that were tried", a.Alert, n)
		}
	}
	if sections != 0 {
		t.Errorf("%d sections too many in the runbooks", sections)
	}
}

var (
	labelInText  = regexp.MustCompile(`\{\{ \$labels\.(\w+) \}\}`)
	durationText = regexp.MustCompile(`\{\{ \$value \| humanizeDuration \}\}`)
	valueInText  = regexp.MustCompile(`\{\{ \$value[^}]*\}\}`)
)

// inWords returns the text of an annotation with the names of labels in capitals, DURATION and N.
func inWords(text string) string {
	text = strings.ReplaceAll(text, "}}{{", "}} or {{")
	text = labelInText.ReplaceAllStringFunc(text, func(s string) string { return strings.ToUpper(labelInText.FindStringSubmatch(s)[1]) })
	return valueInText.ReplaceAllString(durationText.ReplaceAllString(text, "DURATION"), "N")
}

// The table and the conditions in docs/reference/alerts.md are those of alerts.yml.
func TestAlertsInTheDocs(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []yaml.Node
		}
	}
	readYAML(t, "prometheus/alerts.yml", &file)
	notes := map[string]string{} // by alert: the comment on its expression
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			for i := 0; i < len(rule.Content); i += 2 {
				if key := rule.Content[i]; key.Value == "expr" && key.HeadComment != "" {
					notes[rule.Content[1].Value] = strings.Join(strings.FieldsFunc(key.HeadComment, func(r rune) bool { return r == '#' || r == '\n' }), "")
				}
			}
		}
	}
	var table, conditions strings.Builder
	table.WriteString("\n| alert | severity | holds for | text |\n|---|---|---|---|\n")
	conditions.WriteString("\n## Conditions\n")
	for _, a := range readAlerts(t) {
		_, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		lasts := strings.NewReplacer("m", " min", "h", " h").Replace(a.For)
		if a.For == "0m" {
			lasts = "–"
		}
		fmt.Fprintf(&table, "| [%s](../how-to/runbooks.md#%s) | %s | %s | %s |\n", a.Alert, anchor, a.Labels["severity"], lasts, inWords(a.Annotations["summary"]))
		fmt.Fprintf(&conditions, "\n### %s\n\n", a.Alert)
		if note := notes[a.Alert]; note != "" {
			fmt.Fprintf(&conditions, "%s\n\n", strings.TrimSpace(note))
		}
		expr := regexp.MustCompile(` (and|or|unless) (on |max |min |sum |sum\(|max\(|\(sum|0 )`).ReplaceAllString(a.Expr, "\n$1 $2")
		fmt.Fprintf(&conditions, "```text\n%s\n```\n", expr)
	}
	testenv.Generated(t, filepath.Join("..", "docs", "reference", "alerts.md"), "alerts", table.String()+conditions.String()+"\n")
}

var instanceLabel = regexp.MustCompile(`instance="(\w+)"`)

// Each alert has a group of its own in alerts_test.yml, with samples of two instances. There it is silent, then fires
// with a severity and a summary, then resolves.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	var file alertTests
	readYAML(t, "prometheus/alerts_test.yml", &file)
	history := map[string]string{} // by alert: a letter for each assertion
	for _, test := range file.Tests {
		if _, twice := history[test.Name]; twice {
			t.Errorf("two groups are named %s", test.Name)
		}
		instances := map[string]bool{}
		for _, series := range test.InputSeries {
			if m := instanceLabel.FindStringSubmatch(series["series"]); m != nil {
				instances[m[1]] = true
			}
		}
		if len(instances) < 2 && test.Name != "JournalLag" && test.Name != "RPCErrors" {
			t.Errorf("%s has series of %d instances", test.Name, len(instances))
		}
		last := time.Duration(-1)
		for _, a := range test.Assertions {
			if a.Alert != test.Name || a.At <= last {
				t.Errorf("%s asserts on %s at %s", test.Name, a.Alert, a.At)
			}
			last = a.At
			if len(a.Alerts) == 0 {
				history[test.Name] += "s"
				continue
			}
			history[test.Name] += "f"
			for _, e := range a.Alerts {
				if e.Labels["severity"] == "" || e.Annotations["summary"] == "" {
					t.Errorf("%s: no severity or summary at %s", test.Name, a.At)
				}
			}
		}
	}
	complete := regexp.MustCompile("^sf+s$")
	for _, a := range readAlerts(t) {
		if !complete.MatchString(history[a.Alert]) {
			t.Errorf("alerts_test.yml must assert that %s is silent, fires, resolves; it has %q", a.Alert, history[a.Alert])
		}
		delete(history, a.Alert)
	}
	for name := range history {
		t.Errorf("alerts_test.yml tests %s, which is no alert", name)
	}
}

// scaled multiplies the bounds of an expression; zero becomes other.
func scaled(expr string, factor float64, other string) string {
	return regexp.MustCompile(`(>|==) [0-9.]+`).ReplaceAllStringFunc(expr, func(s string) string {
		operator, number, _ := strings.Cut(s, " ")
		v, _ := strconv.ParseFloat(number, 64)
		if v == 0 {
			return operator + " " + other
		}
		return operator + " " + strconv.FormatFloat(v*factor, 'g', -1, 64)
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mutants returns variants of an alert with one mistake each, by its description.
func mutants(t *testing.T, a alert) map[string]alert {
	t.Helper()
	found := map[string]alert{}
	add := func(what string, change func(*alert)) {
		m := a
		change(&m)
		m.Alert = a.Alert + "_" + what
		if m.Expr != a.Expr || m.For != a.For || what == "severity" || what == "summary" {
			found[m.Alert] = m
		}
	}
	windows := regexp.MustCompile(`\[(\d+)([mh])\]`)
	window := func(factor float64) string {
		return windows.ReplaceAllStringFunc(a.Expr, func(s string) string {
			return fmt.Sprintf("[%.0fs]", duration(t, strings.Trim(s, "[]")).Seconds()*factor)
		})
	}
	lasts := duration(t, a.For)
	add("higher", func(m *alert) { m.Expr = scaled(a.Expr, 1.1, "100") })
	add("lower", func(m *alert) { m.Expr = scaled(a.Expr, 0.9, "-1") })
	add("longer", func(m *alert) { m.For = (2*lasts + time.Minute).String() })
	if lasts > 0 {
		add("shorter", func(m *alert) { m.For = (lasts / 2).String() })
	}
	add("window_longer", func(m *alert) { m.Expr = window(2) })
	add("window_shorter", func(m *alert) { m.Expr = window(0.25) })
	add("metric", func(m *alert) {
		m.Expr = regexp.MustCompile(`\b(swh_scheduler|up\b)`).ReplaceAllString(a.Expr, "${1}_x")
	})
	add("aggregation", func(m *alert) {
		m.Expr = strings.NewReplacer("max by (", "max by (instance, ", "max(", "min(", "sum(", "max(", "sum by (", "max by (").Replace(a.Expr)
	})
	add("severity", func(m *alert) { m.Labels = map[string]string{"severity": "info"} })
	add("summary", func(m *alert) {
		m.Annotations = map[string]string{"summary": "something", "runbook_url": a.Annotations["runbook_url"]}
	})
	return found
}

// alerts_test.yml fails for each of these mistakes in each alert.
func TestAlertTestsFindMistakes(t *testing.T) {
	t.Parallel()
	var file alertTests
	readYAML(t, "prometheus/alerts_test.yml", &file)
	dir := t.TempDir()
	args, names := []string{"test", "rules"}, []string(nil)
	for _, a := range readAlerts(t) {
		rules := alertGroup{Name: "mutants"}
		tests := alertTests{RuleFiles: []string{a.Alert + ".yml"}, EvaluationInterval: file.EvaluationInterval}
		for name, m := range mutants(t, a) {
			rules.Rules = append(rules.Rules, m)
			names = append(names, name)
		}
		for _, test := range file.Tests {
			if test.Name != a.Alert {
				continue
			}
			assertions := test.Assertions
			test.Assertions = nil
			for _, m := range rules.Rules {
				for _, assertion := range assertions {
					assertion.Alert = m.Alert
					test.Assertions = append(test.Assertions, assertion)
				}
			}
			tests.Tests = append(tests.Tests, test)
		}
		writeYAML(t, filepath.Join(dir, a.Alert+".yml"), alertRules{Groups: []alertGroup{rules}})
		args = append(args, filepath.Join(dir, a.Alert+"_test.yml"))
		writeYAML(t, args[len(args)-1], tests)
	}
	// promtool is expected to fail; its output names each failed assertion.
	out, _ := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	for _, name := range names {
		if !strings.Contains(string(out), "alertname: "+name+", time: ") {
			t.Errorf("alerts_test.yml passes with %s", name)
		}
	}
	if t.Failed() {
		t.Logf("%.2000s", out)
	}
}
