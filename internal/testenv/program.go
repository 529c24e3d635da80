package testenv

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// ProgramEnv is what the environment of a program under test must hold: a data race
// ends it, with exit code 66.
const ProgramEnv = "GORACE=halt_on_error=1"

// BuildProgram builds swh-scheduler at path, with the race detector if the test has
// it.
func BuildProgram(path string) error {
	args := slices.Concat([]string{"build"}, raceFlags, []string{"-o", path, "swh-scheduler/cmd/swh-scheduler"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", args, err, out)
	}
	return nil
}

// Crash returns what a program's standard error says of a data race, a panic or a
// fatal error of Go's runtime, or "".
func Crash(stderr string) string {
	for _, mark := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if at := strings.Index(stderr, mark); at >= 0 {
			return stderr[at:]
		}
	}
	return ""
}
