package rpc

import (
	"os/exec"
	"regexp"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The Python scheduler's own tests of a scheduler pass through its own client.
func TestConformance(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-m", "pytest", "-v",
		"-p", "peer_tests", "-p", "no:cacheprovider", "--pyargs", "swh.scheduler.tests.test_scheduler")
	cmd.Env = append(cmd.Environ(), "LC_ALL=C.UTF-8", "PYTHONPATH=testdata", "PYTHONDONTWRITEBYTECODE=1",
		"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "SWH_TEST_DSN="+dsn, "SWH_TEST_URL="+serve(t, dsn))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// All of them, and none was skipped.
	summary := regexp.MustCompile(`(?m)^=+ 73 passed(, \d+ warnings?)? in .*$`).Find(out)
	if summary == nil {
		t.Errorf("not 73 tests passed:\n%s", out)
	}
	t.Logf("%s", summary)
}
