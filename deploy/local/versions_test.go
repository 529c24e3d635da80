package local

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A misspelt name, or an invalid regular expression, is an error: an empty table would look like a success.
func TestVersionsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{
		"PostgresQL 15": `no version matches ONLY="PostgresQL 15"; there are: PostgreSQL 12 (refused), PostgreSQL 13, `,
		"Kafka (":       `ONLY="Kafka (" is no regular expression of Bash`,
	} {
		cmd := exec.Command("./versions")
		cmd.Env = append(os.Environ(), "ONLY="+only)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("ONLY=%q: %v, want exit code 2 and %q:\n%s", only, err, want, out)
		}
	}
}
