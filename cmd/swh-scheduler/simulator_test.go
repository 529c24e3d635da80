package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// Both commands have the Python scheduler's output and write its files.
func TestSimulator(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	r := ours(t, "-d", dsn, "simulator", "fill-test-data", "-n", "1234", "--forks", "0.5")
	if want := regexp.MustCompile(`^Filling 1,234 listed origins data\.\.\.\nCompleted in \d+\.\d\d seconds\n$`); r.code != 0 || !want.MatchString(r.stdout) {
		t.Errorf("fill-test-data: %+v", r)
	}
	if got := value(t, dsn, "select format('%s %s %s', (select count(*) from listed_origins), (select count(*) from listed_origins where is_fork), (select count(*) from task))"); got != "1234 617 1234" {
		t.Errorf("%s origins, forks and tasks", got)
	}
	csv, page := testenv.File(t, "x.csv", strings.Repeat("what was there before\n", 1000)), filepath.Join(t.TempDir(), "x.html")
	r = ours(t, "-d", dsn, "simulator", "run", "-s", "task_scheduler", "-t", "7200", "--forks", "0.5", "-P", "-o", csv, "--html", page)
	for _, want := range []string{
		`^total simulated time: 2:00:00\nTotal visits: \d+\nUneventful visits: \d+\nEventful visits: \d+\nVery long running tasks: \d+\nVisit time histogram for eventful visits:\n`,
		`█ \d+\n`, `\nMetrics over time:\n`, `\+ Known origins`,
	} {
		if r.code != 0 || !regexp.MustCompile(want).MatchString(r.stdout) || strings.Contains(r.stdout, "\x1b") {
			t.Errorf("no %q without colours in %+v", want, r)
		}
	}
	got, err := os.ReadFile(csv)
	if want := regexp.MustCompile(`^timestamp,known_origins,enabled_origins,never_visited_origins,origins_with_pending_changes\r\n(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00:00,1234,1234,1234,0\r\n){3}$`); err != nil || !want.Match(got) {
		t.Errorf("CSV: %s, %v", got, err)
	}
	if got := testenv.Read(t, page); !strings.Contains(string(got), "<td>task_scheduler</td>") || !strings.Contains(string(got), "that are forks</td><td>0.5</td>") || strings.Count(string(got), "</svg>") != 3 {
		t.Errorf("page: %s", got)
	}
}

// A simulation's result is available as JSON, and one simulation can run all policies.
func TestSimulatorPolicies(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"pools", "configured", "stop_after_success", "freshness"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := ours(t, "-d", testenv.Database(t), "simulator", "run", "--origins", "300", "-t", "3600", "-p", policy, "--workers", "400", "--output", "json")
			var got struct {
				Visits    int `json:"total_visits"`
				Eventful  int `json:"eventful_visits"`
				Simulated float64
			}
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 || got.Visits == 0 || got.Eventful > got.Visits || got.Simulated != 3600 {
				t.Errorf("%v: %+v", err, r)
			}
		})
	}
}

// Arguments that can't be simulated are refused before anything is written.
func TestSimulatorMistakes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	none := configFile(t, "scheduler: {cls: remote, url: http://h/}\n")
	for args, want := range map[string]string{
		"-s task_schedular":                  "Invalid value for '--scheduler' / '-s': 'task_schedular' is not one of 'task_scheduler', 'origin_scheduler'.",
		"-p poolz":                           "Did you mean 'pools'?",
		"--workers 0":                        "Invalid value for '--workers': 0 is not 1 or more.",
		"--origins -1":                       "Invalid value for '--origins': -1 is negative.",
		"--forks 1.5":                        "Invalid value for '--forks': 1.5 is not from 0 to 1.",
		"-t soon":                            "Invalid value for '--runtime' / '-t': 'soon' is not a valid float.",
		"--shares /no/x":                     "Invalid value for '--shares': File '/no/x' does not exist.",
		"--shares " + none:                   "Invalid value for '--shares': " + none + " has no key shares.",
		"-s task_scheduler --shares " + none: "only origin_scheduler can be simulated with shares",
		"-t nan":                             "Invalid value for '--runtime' / '-t': nan is not a number of seconds.",
		"-t 1 --csv /no/x":                   "Invalid value for '--csv' / '-o': '/no/x': no such file or directory",
	} {
		r := ours(t, append([]string{"-d", dsn, "simulator", "run"}, strings.Fields(args)...)...)
		if r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", args, r, want)
		}
	}
	if got := value(t, dsn, "select count(*)::text from listers"); got != "0" {
		t.Errorf("%s listers", got)
	}
}

// Each form of the report has the effect of shares.
func TestSimulatorShares(t *testing.T) {
	t.Parallel()
	shares := configFile(t, "shares: {load-test-git: {by: lister, weights: {busy: 3}, default: 1}}\n")
	run := []string{"-d", testenv.PythonDatabase(t), "simulator", "run", "--origins", "4000", "-t", "7200", "--workers", "300", "--shares", shares}
	if r := ours(t, run...); r.code != 0 || !regexp.MustCompile(`\nShares of the workers' time:\n  busy: \d+\.\d % \(\d+ seconds\); mean wait in the queue: \d+ seconds\n  example: `).MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	run[1] = testenv.PythonDatabase(t)
	r := ours(t, append(run, "--output", "json")...)
	var got struct {
		Shares []struct {
			Group string
			Part  float64
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Shares) != 2 || got.Shares[0].Group != "busy" || got.Shares[0].Part+got.Shares[1].Part < 0.999 {
		t.Errorf("%v: %+v", err, r)
	}
}

// Ctrl-C ends an endless simulation with its report.
func TestSimulatorInterrupted(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binary, "-d", testenv.Database(t), "simulator", "run", "--origins", "100")
	cmd.Env = environment()
	var out bytes.Buffer
	cmd.Stdout = &out
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=simulated time=5h") {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the simulation ends
	}
	if err := cmd.Wait(); err != nil || !regexp.MustCompile(`^total simulated time: .*\nTotal visits: [1-9]`).MatchString(out.String()) {
		t.Errorf("%v: %q", err, out.String())
	}
}

// Policies are compared on recorded changes without a database. The result is a table, JSON, a page and a file.
func TestSimulatorCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page, csv := filepath.Join(dir, "x.html"), filepath.Join(dir, "x.csv")
	text := "origin,time\n"
	for _, day := range []string{"01", "04", "09", "21", "28"} {
		text += "a,2026-01-" + day + "T12:00:00Z\nb,2026-02-" + day + "T00:00:00+01:00\n"
	}
	changes := testenv.File(t, "changes.csv", text)
	r := ours(t, "simulator", "compare", "--changes", changes, "--workers", "1", "--output", "json", "--html", page, "-o", csv)
	var got []struct {
		Policy string
		Mean   float64 `json:"mean_staleness"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 || len(got) != 7 || got[5].Policy != "freshness" || got[5].Mean <= 0 {
		t.Errorf("%v: %+v", err, r)
	}
	if got := testenv.Read(t, page); strings.Count(string(got), "</svg>") != 3 {
		t.Errorf("page: %s", got)
	}
	if got := testenv.Read(t, csv); !strings.Contains(string(got), "\r\noracle,") {
		t.Errorf("CSV: %s", got)
	}
	for args, want := range map[string]string{
		"--model sometimes":                "'sometimes' is not one of 'even', 'poisson', 'weekdays', 'releases', 'revived'.",
		"--load 0":                         "Invalid value for '--load': 0 is not more than 0 and at most 100.",
		"--changes /no/x":                  "Invalid value for '--changes': '/no/x': No such file or directory",
		"--origins 3 --changes " + changes: "--origins can't be given with --changes: the file sets it",
		"--changes " + page:                page,
		"--origins 0":                      "Invalid value for '--origins': 0 is not between 1 and 10,000,000.",
		"--days 0":                         "Invalid value for '--days': 0 is not more than 0 and at most ten years.",
		"--runs 0 --workers 2":             "Invalid value for '--runs': 0 is not between 1 and 1,000.",
		"--origins 30":                     "Invalid value for '--workers': 20 are more than one for ten origins; give fewer, of 30 origins at most 3.",
		"--hosters 1000000000000":          "Invalid value for '--hosters': 1000000000000 are more than origins, of which there are 2000.",
		"--csv /no/x --days 1":             "Invalid value for '--csv' / '-o': '/no/x': no such file or directory",
		"--recall 1.2":                     "Invalid value for '--recall': 1.2 is not from 0 to 1.",
		"--false-news 1":                   "Invalid value for '--false-news': 1 is not from 0 to below 1.",
		"--workers 0":                      "Invalid value for '--workers': 0 is not 1 or more.",
	} {
		if r := ours(t, append([]string{"simulator", "compare"}, strings.Fields(args)...)...); r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", args, r, want)
		}
	}
}
