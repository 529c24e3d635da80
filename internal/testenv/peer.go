package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"swh-scheduler/internal/services"
)

// Python returns the Python interpreter of a virtual environment that holds
// Celery and the peer (the `swh` command is beside it).
func Python(t testing.TB) string {
	t.Helper()
	return endpoint(t, pythonVar)
}

// ArchivePython returns the Python interpreter of a virtual environment that holds the
// archive's lister, loader and storage.
func ArchivePython(t testing.TB) string {
	t.Helper()
	python, err := services.FindArchive()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return python
}

// PeerDatabase returns the URL of a fresh database as the peer's own commands
// make it (`swh db init-admin`, `swh db init`), dropped when the test ends.
func PeerDatabase(t testing.TB) string {
	t.Helper()
	swh := filepath.Join(filepath.Dir(Python(t)), "swh")
	version, err := exec.Command(Python(t), "-c",
		"from importlib.metadata import version; print(version('swh.scheduler'))").Output()
	if err != nil {
		t.Fatalf("testenv: ask %s for the peer's version: %v", Python(t), err)
	}
	return databaseFrom(t, template(t, "peer_"+shortHash(version), func(ctx context.Context, dsn string) error {
		for _, step := range []string{"init-admin", "init"} {
			cmd := exec.CommandContext(ctx, swh, "db", step, "--dbname", dsn, "scheduler")
			// Its own language and configuration would only change messages.
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SWH_CONFIG_FILENAME=")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd, err, out)
			}
		}
		return nil
	}))
}
