package deploy_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// For each shipped daemon, the limit of Go's garbage collector (GOMEMLIMIT) is 75 to 85 % of its memory limit. So the
// collector works harder before the system ends the process.
func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	check := func(where, soft, hard string) {
		t.Helper()
		if s, h := mebibytes(t, soft), mebibytes(t, hard); s < 0.75*h || s > 0.85*h {
			t.Errorf("%s: GOMEMLIMIT is %q, with a limit of %q", where, soft, hard)
		}
	}

	unit := testenv.Read(t, "systemd/swh-scheduler@.service")
	value := func(name string) string {
		m := regexp.MustCompile("(?m)^" + name + "=(.*)$").FindSubmatch(unit)
		if m == nil {
			return ""
		}
		return string(m[1])
	}
	check("systemd", value("Environment=GOMEMLIMIT"), value("MemoryMax"))
	if high := mebibytes(t, value("MemoryHigh")); high <= mebibytes(t, value("Environment=GOMEMLIMIT")) || high >= mebibytes(t, value("MemoryMax")) {
		t.Errorf("systemd: MemoryHigh is not between GOMEMLIMIT and MemoryMax")
	}

	var compose struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Deploy      struct {
				Resources struct{ Limits struct{ Memory string } }
			}
		}
	}
	readYAML(t, "docker/compose.yml", &compose)
	for _, name := range []string{"runner", "runner-priority", "runner-first-visits", "listener", "recurrent", "journal-client", "rpc", "dashboard"} {
		s := compose.Services[name]
		check("compose, "+name, s.Environment["GOMEMLIMIT"], s.Deploy.Resources.Limits.Memory)
	}
}

// mebibytes reads a size in the format of Go, systemd, Kubernetes or Compose; 0 if there is none.
func mebibytes(t *testing.T, size string) float64 {
	t.Helper()
	number := strings.TrimRight(size, "MiB")
	if number == "" {
		return 0
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || number == size {
		t.Fatalf("%q is no size in mebibytes", size)
	}
	return n
}
