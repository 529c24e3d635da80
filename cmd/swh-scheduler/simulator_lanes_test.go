package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const simulatedLanesFile = `lanes:
  load-git:
  - {name: express, queue: "express:{backend_name}", time_limit: 1 min, slots: 4, max_slots: 8}
  - {name: slow, time_limit: 4 hours, slots: 44, max_slots: 47}
`

// From a file of runtimes, the simulator computes waiting times with and without a configuration's lanes. Short work
// waits less. Equal seeds have equal results, without a database.
func TestSimulatorComparesLanes(t *testing.T) {
	t.Parallel()
	lanes, runtimes, csv := configFile(t, simulatedLanesFile), configFile(t, "runtime,origin\n"+strings.Repeat("1,\n", 95)+strings.Repeat("3000,slow\n", 5)), filepath.Join(t.TempDir(), "waits.csv")
	args := []string{"simulator", "run", "--lanes", lanes, "--runtimes", runtimes, "-t", "172800", "--csv", csv, "--html", csv + ".html"}
	r := ours(t, append(args, "--plots")...)
	for _, want := range []string{"Jobs: ", "Slow sent express: ", "JOBS ", "shortest half ", "slowest tenth ", "p95 wait, log10"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in %+v", want, r)
		}
	}
	if got, err := os.ReadFile(csv); err != nil || len(strings.Split(string(got), "\n")) != 22 {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := os.ReadFile(csv + ".html"); err != nil || !strings.Contains(string(got), "<polyline") || !strings.Contains(string(got), "Lane express") {
		t.Errorf("%s, %v", got, err)
	}
	var first string
	for range 2 {
		r := ours(t, append(args, "--output", "json", "--seed", "7")...)
		var got struct {
			Jobs    int
			Classes []struct {
				Jobs      string
				Wait      float64 `json:"p95_wait"`
				WithLanes float64 `json:"p95_wait_with_lanes"`
			}
		}
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 0 || got.Jobs < 1000 || len(got.Classes) != 4 {
			t.Fatalf("%v: %+v", err, r)
		}
		if short := got.Classes[0]; short.Jobs != "shortest half" || short.Wait < 5*short.WithLanes {
			t.Errorf("%+v", short)
		}
		if first != "" && r.stdout != first {
			t.Errorf("one seed, two results:\n%s\n%s", first, r.stdout)
		}
		first = r.stdout
	}
}

func TestSimulatorLanesMistakes(t *testing.T) {
	t.Parallel()
	lanes := configFile(t, simulatedLanesFile)
	several := configFile(t, simulatedLanesFile+strings.ReplaceAll(strings.TrimPrefix(simulatedLanesFile, "lanes:\n"), "load-git", "load-hg"))
	for args, want := range map[string]string{
		"--lanes /no/x":                             "Invalid value for '--lanes': /no/x: does not exist",
		"--lanes " + configFile(t, "a: 1"):          "has no lanes",
		"--lanes " + several:                        "has lanes for several task types; choose one by --visit-type: load-git, load-hg",
		"--visit-type svn --lanes " + lanes:         "has no lanes for task type load-svn, but for load-git",
		"--workers 1 --lanes " + lanes:              "Invalid value for '--workers': 1 is less than the number of lanes, 2.",
		"--load 1 --lanes " + lanes:                 "Invalid value for '--load': 1 is not between 0 and 1.",
		"--batch 0 --lanes " + lanes:                "Invalid value for '--batch': 0 is not 1 or more.",
		"--between 1s --lanes " + lanes:             "Invalid value for '--between': 1s is not between a minute and ten years.",
		"-t 0 --lanes " + lanes:                     "Invalid value for '--runtime' / '-t': with --lanes it must be more than 0 and at most ten years.",
		"--runtimes /no/x --lanes " + lanes:         "Invalid value for '--runtimes': '/no/x': No such file or directory",
		"--html /no/x --lanes " + lanes:             "Invalid value for '--html': '/no/x': no such file or directory",
		"--csv /no/x --lanes " + lanes:              "Invalid value for '--csv' / '-o': '/no/x': no such file or directory",
		"--runtimes " + lanes + " --lanes " + lanes: "no column runtime",
	} {
		r := ours(t, append([]string{"simulator", "run"}, strings.Fields(args)...)...)
		if r.code == 0 || r.stdout != "" || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", args, r, want)
		}
	}
}
