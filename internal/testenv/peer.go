package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"swh-scheduler/internal/testenv/throwaway"
)

// Python returns the Python interpreter of a virtual environment with Celery and the Python scheduler.
func Python(t testing.TB) string {
	t.Helper()
	return endpoint(t, pythonVar)
}

// Swh returns the Python scheduler's program, of the same virtual environment.
func Swh(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(Python(t)), "swh")
}

// EndsConnections returns a variable for the environment of a Python process. With it the process closes its connections
// to the broker at its end, so that its last messages are in their queues.
func EndsConnections() string {
	_, file, _, _ := runtime.Caller(0)
	return "PYTHONPATH=" + filepath.Join(filepath.Dir(file), "testdata", "python")
}

// ArchivePython returns the Python interpreter of a virtual environment that holds the
// archive's lister, loader and storage.
func ArchivePython(t testing.TB) string {
	t.Helper()
	python, err := throwaway.FindArchive()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return python
}

// PythonDatabase returns the URL of a fresh database made by the Python scheduler's own commands (`swh db init-admin`,
// `swh db init`), dropped when the test ends.
func PythonDatabase(t testing.TB) string {
	t.Helper()
	python, swh := Python(t), Swh(t)
	version, err := peerVersion(python)
	if err != nil {
		t.Fatalf("testenv: ask %s for the Python scheduler's version: %v", python, err)
	}
	return databaseFrom(t, template(t, "peer_"+shortHash(version), func(ctx context.Context, dsn string) error {
		for _, step := range []string{"init-admin", "init"} {
			cmd := exec.CommandContext(ctx, swh, "db", step, "--dbname", dsn, "scheduler")
			// Another language or configuration would only change messages.
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SWH_CONFIG_FILENAME=")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd, err, out)
			}
		}
		return nil
	}))
}

var peerVersions sync.Map // by Python

// peerVersion returns the version of the Python scheduler of a Python, which it reads once.
func peerVersion(python string) ([]byte, error) {
	ask, _ := peerVersions.LoadOrStore(python, sync.OnceValues(func() ([]byte, error) {
		return exec.Command(python, "-c", "from importlib.metadata import version; print(version('swh.scheduler'))").Output()
	}))
	return ask.(func() ([]byte, error))()
}
