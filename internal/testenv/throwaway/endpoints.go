package throwaway

import (
	"os"
	"strings"
)

// The environment variables with the addresses of the services, for tests and the demonstration.
const (
	PostgresVar   = "SWH_TEST_POSTGRES_URL"
	RabbitMQVar   = "SWH_TEST_RABBITMQ_URL"
	ManagementVar = "SWH_TEST_RABBITMQ_MANAGEMENT_URL"
	KafkaVar      = "SWH_TEST_KAFKA_BROKERS"
	PythonVar     = "SWH_TEST_PYTHON"
)

// DurableVar is the environment variable that makes PostgreSQL use its own defaults of fsync and full_page_writes,
// and write to a disk: for benchmarks, and for servers that are kept.
const DurableVar = "SWH_TEST_DURABLE"

// Endpoints has the addresses of the services. A field is empty for a missing service.
type Endpoints struct {
	Postgres   string // URL of a superuser
	RabbitMQ   string // AMQP URL of an administrator, virtual host "/"
	Management string // root URL of RabbitMQ's management API, with credentials
	Kafka      string // bootstrap brokers, comma-separated
	Python     string // interpreter of a virtual environment with Celery and the Python scheduler
}

// FromEnvironment returns the endpoints that the environment names.
func FromEnvironment() Endpoints {
	var e Endpoints
	for name, field := range e.fields() {
		*field = strings.TrimSpace(os.Getenv(name))
	}
	return e
}

// Environ returns the endpoints as "name=value", for a child's environment.
func (e Endpoints) Environ() []string {
	var environ []string
	for name, field := range e.fields() {
		if *field != "" {
			environ = append(environ, name+"="+*field)
		}
	}
	return environ
}

func (e *Endpoints) fields() map[string]*string {
	return map[string]*string{
		PostgresVar:   &e.Postgres,
		RabbitMQVar:   &e.RabbitMQ,
		ManagementVar: &e.Management,
		KafkaVar:      &e.Kafka,
		PythonVar:     &e.Python,
	}
}
