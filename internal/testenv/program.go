package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// ProgramEnv is a variable for the environment of a tested program: a data race ends it with exit code 66.
const ProgramEnv = "GORACE=halt_on_error=1 atexit_sleep_ms=0"

// BuildProgram builds swh-scheduler at path (absolute), with the race detector if the test has it.
func BuildProgram(path string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return BuildProgramIn(root, path)
}

// BuildProgramIn is BuildProgram of the sources in another directory.
func BuildProgramIn(root, path string) error {
	args := slices.Concat([]string{"build", "-C", root}, raceFlags, []string{"-ldflags=-s -w", "-o", path, "swh-scheduler/cmd/swh-scheduler"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w\n%s", args, err, out)
	}
	return nil
}

// BuildAsShipped builds a program of this module at path as `make build` does: without the race detector, whose memory
// and time would count.
func BuildAsShipped(program, path string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// ModuleRoot returns the directory of the scheduler's module, from any module's test.
func ModuleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "swh-scheduler").Output()
	if err != nil {
		return "", fmt.Errorf("look for the scheduler's module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Crash returns the part of a program's standard error about a data race, a panic or a fatal error of Go's runtime,
// or "".
func Crash(stderr string) string {
	for _, mark := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if at := strings.Index(stderr, mark); at >= 0 {
			return stderr[at:]
		}
	}
	return ""
}
