package testenv

import (
	"os"
	"strings"
	"testing"
)

// Names of the environment variables that say where the services are.
const (
	postgresVar   = "SWH_TEST_POSTGRES_URL"
	rabbitMQVar   = "SWH_TEST_RABBITMQ_URL"
	managementVar = "SWH_TEST_RABBITMQ_MANAGEMENT_URL"
	kafkaVar      = "SWH_TEST_KAFKA_BROKERS"
	pythonVar     = "SWH_TEST_PYTHON"
)

// endpoint returns the value of an environment variable that names a service.
func endpoint(t testing.TB, name string) string {
	t.Helper()
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		t.Fatalf("testenv: %s is not set: run the tests with `make test`", name)
	}
	return value
}
