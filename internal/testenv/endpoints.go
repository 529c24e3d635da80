package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"swh-scheduler/internal/testenv/throwaway"
)

// endpoint returns the value of a service's environment variable, after starting services if it is missing.
func endpoint(t testing.TB, name string) string {
	t.Helper()
	if value := strings.TrimSpace(os.Getenv(name)); value != "" {
		return value
	}
	started, err := startOnce()
	if err != nil {
		t.Fatalf("testenv: %s is not set, and no services could be started: %v", name, err)
	}
	value, found := started.variables[name]
	if !found {
		t.Fatalf("testenv: %s is not set", name)
	}
	return value
}

// startedServices are services that run until the pipe to testservices ends. This process holds the pipe until its
// end, so that they stop even when it is killed.
type startedServices struct {
	variables map[string]string
	pipe      io.WriteCloser
}

// startOnce starts the missing services, for this process.
//
// They run in another process, as a test binary has no hook at its end, and as leak checks of the tested packages
// would see their goroutines.
var startOnce = sync.OnceValues(func() (*startedServices, error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "run", "./testservices", "-serve")
	cmd.Dir = filepath.Join(root, "test")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	variables := map[string]string{}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), "=")
		if !found { // the empty line at the end
			return &startedServices{variables, stdin}, nil
		}
		variables[name] = value
	}
	return nil, errors.Join(fmt.Errorf("%s said why above", cmd), cmd.Wait())
})

// The names are those of package throwaway, which starts the services.
const (
	postgresVar   = throwaway.PostgresVar
	rabbitMQVar   = throwaway.RabbitMQVar
	managementVar = throwaway.ManagementVar
	kafkaVar      = throwaway.KafkaVar
	pythonVar     = throwaway.PythonVar
)
