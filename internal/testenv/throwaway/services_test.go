package throwaway

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The management port is 10,000 above AMQP's, as the Python scheduler expects.
func TestFreePortsAreFreeAtTheirOffset(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(5, managementOffset)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		for _, p := range []int{port, port + managementOffset} {
			if err := listenSoon(p); err != nil {
				t.Error(err)
			}
		}
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(ports))); len(distinct) != 5 {
		t.Errorf("ports %v, want five distinct ones", ports)
	}
}

// A port is free only if those at its offsets are.
func TestPortsWhoseOffsetsAreTaken(t *testing.T) {
	t.Parallel()
	even := func(port int) bool { return port%2 == 0 }
	if ports, err := choosePorts(100, 200, 3, []int{10}, even); err != nil || len(ports) != 3 {
		t.Errorf("%v, %v", ports, err)
	}
	for _, offset := range []int{11, 100} { // in use, or too high
		if ports, err := choosePorts(100, 200, 1, []int{offset}, even); err == nil {
			t.Errorf("%v, at offset %d", ports, offset)
		}
	}
}

// listenSoon listens on a port once it is free, and closes it again. A child of another test, between its fork and
// its exec, may hold a port of FreePorts a little longer.
func listenSoon(port int) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		l, err := net.Listen("tcp", address(port))
		if err == nil {
			return l.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("port %d: %w", port, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// findProgram returns the newest of several PostgreSQL versions: 15, not 9.6.
func TestFindProgramTakesTheNewest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, version := range []string{"9.6", "13", "15", "14"} {
		bin := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "postgres"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findProgram("postgres", filepath.Join(root, "*", "bin"))
	if want := filepath.Join(root, "15", "bin", "postgres"); err != nil || got != want {
		t.Errorf("findProgram = %q, %v; want %q", got, err, want)
	}
}

// FromEnvironment reads the output of Environ.
func TestEnvironmentRoundTrip(t *testing.T) {
	want := Endpoints{Postgres: "p", RabbitMQ: "r", Management: "m", Kafka: "k1,k2", Python: "py"}
	for _, variable := range want.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	if got := FromEnvironment(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
