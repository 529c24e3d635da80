package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An error in a command line has the command's name and exit code 2, also if a library detects it.
func TestMistakesAreNamed(t *testing.T) {
	t.Setenv("SWH_CONFIG_FILENAME", "")
	for args, want := range map[string]string{
		"task-type add a b c --max-queue-length x":            "task-type add: Invalid value for '--max-queue-length': 'x' is not a valid integer.",
		"journal-client --stop-after-objects x":               "journal-client: Invalid value for '--stop-after-objects' / '-m': 'x' is not a valid integer.",
		"simulator compare --seed -1":                         "simulator compare: Invalid value for '--seed': '-1' is not a valid integer of at least 0.",
		"-d dbname=x migrate --remove --status":               "migrate: '--remove' and '--status' exclude each other.",
		"-d dbname=x migrate --dry-run --status --remove":     "migrate: '--dry-run' and '--status' exclude each other.",
		"-d dbname=x task-type register --plugins a --file b": "task-type register: '--plugins' and '--file' exclude each other.",
		"simulator compare --runs 9999999999999":              "simulator compare: Invalid value for '--runs': 9999999999999 is not between 1 and 1,000.",
		"-d dbname=x simulator fill-test-data -n -5":          "simulator fill-test-data: Invalid value for '--num-origins' / '-n': -5 is negative.",
		"completion ksh": "completion: No such command 'ksh'. Did you mean 'zsh'?",
	} {
		var stdout, stderr strings.Builder
		code := Run(t.Context(), "", strings.Fields(args), &stdout, &stderr)
		cmd, problem, _ := strings.Cut(want, ": ")
		if says := stderr.String(); code != 2 || stdout.Len() > 0 || !strings.HasPrefix(says, "Usage: swh-scheduler "+cmd) || !strings.HasSuffix(says, "\n\nError: "+problem+"\n") {
			t.Errorf("%s: exit code %d, %q, %s", args, code, stdout.String(), says)
		}
	}
}

// The simulator refuses at once a simulation without an end, or one that exceeds the memory.
func TestEndlessSimulations(t *testing.T) {
	t.Setenv("SWH_CONFIG_FILENAME", "")
	lanes, zeros, ones := filepath.Join(t.TempDir(), "lanes.yml"), filepath.Join(t.TempDir(), "zeros.csv"), filepath.Join(t.TempDir(), "ones.csv")
	for file, text := range map[string]string{
		lanes: "lanes:\n  load-git:\n  - {name: express, soft_time_limit: 1 minute, time_limit: 2 minutes, queue: a, slots: 4}\n  - {name: slow, soft_time_limit: 4 hours, time_limit: 5 hours, queue: b, slots: 44}\n",
		zeros: "runtime\n0\n0\n", ones: "runtime\n1\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"--runtimes " + zeros:                              "the mean runtime must be more than 0",
		"--runtimes " + ones + " --workers 1000000000":     "jobs",
		"--runtimes " + ones + " --batch 9000000000000000": "jobs",
		"--between 36500d":                                 "is not between a minute and ten years",
		"--workers 1000000000":                             "jobs",
		"--runtime NaN":                                    "is not a number of seconds",
		"--runtime Inf":                                    "at most ten years",
		"--runtime -1":                                     "more than 0",
	} {
		var stdout, stderr strings.Builder
		code := Run(t.Context(), "", strings.Fields("simulator run --lanes "+lanes+" "+args), &stdout, &stderr)
		if says := stderr.String(); code != 2 || !strings.Contains(says, want) {
			t.Errorf("%s: exit code %d, %s; want %s", args, code, says, want)
		}
	}
}

// Help for an unknown command is an error, as in the Python scheduler. A --help before that word prints the help.
func TestHelpOfUnknownCommands(t *testing.T) {
	t.Setenv("SWH_CONFIG_FILENAME", "")
	for args, want := range map[string]string{
		"nosuch --help":                     "No such command 'nosuch'.",
		"nosuch -h":                         "No such command 'nosuch'.",
		"nosuch sub --help":                 "No such command 'nosuch'.",
		"scheduler nosuch --help":           "No such command 'nosuch'.",
		"tasks --help":                      "No such command 'tasks'. Did you mean 'task'?",
		"task nosuch --help":                "task: No such command 'nosuch'.",
		"task nosuch list --help":           "task: No such command 'nosuch'.",
		"-d dbname=x task nosuch --help":    "task: No such command 'nosuch'.",
		"task -d dbname=x nosuch --help":    "task: No such command 'nosuch'.",
		"-l ERROR task graph nosuch --help": "task graph: No such command 'nosuch'.",
		"completion nosuch --help":          "completion: No such command 'nosuch'.",
		"--nosuch --help":                   "No such option '--nosuch'.",
		"--help":                            "",
		"--help nosuch":                     "",
		"task --help":                       "",
		"task --help nosuch":                "",
		"task graph --help nosuch":          "",
		"task list nosuch --help":           "",
		"-d nosuch --help":                  "",
		"help task":                         "",
		"-d x task task --help":             "task: No such command 'task'.",
	} {
		var stdout, stderr strings.Builder
		code := Run(t.Context(), "", strings.Fields(args), &stdout, &stderr)
		says := stderr.String()
		if want == "" {
			if code != 0 || says != "" || !strings.Contains(stdout.String(), "Usage: swh-scheduler") {
				t.Errorf("%s: exit code %d, %.200q, %s", args, code, stdout.String(), says)
			}
			continue
		}
		cmd, problem, nested := strings.Cut(want, ": ")
		if !nested {
			cmd, problem = "", want
		}
		if code != 2 || stdout.Len() > 0 || !strings.HasPrefix(says, strings.TrimSpace("Usage: swh-scheduler "+cmd)) || !strings.HasSuffix(says, "\n\nError: "+problem+"\n") {
			t.Errorf("%s: exit code %d, %.200q, %s", args, code, stdout.String(), says)
		}
	}
}

// Completion writes to the command's output, and offers cobra's words.
func TestCompletionIsPrinted(t *testing.T) {
	t.Setenv("SWH_CONFIG_FILENAME", "")
	for args, want := range map[string]string{"completion bash": "# bash completion", "__complete completion bash ": ":4\n"} { // 4: no files
		var stdout, stderr strings.Builder
		if code := Run(t.Context(), "", strings.Split(args, " "), &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), want) {
			t.Errorf("%s: exit code %d, %.100q, %s", args, code, stdout.String(), stderr.String())
		}
	}
}
