// Machine prints the machine and the services of benchmarks as lines "key: value", the configuration lines of the
// benchmark format, before the output of `go test -bench`. The environment names the services and the Python, as for
// tests.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/testenv/throwaway"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Printf("date: %s\ncores: %d\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU())
	for _, fact := range []struct {
		key  string
		find func(context.Context) (string, error)
	}{
		{"memory", memory},
		{"system", system},
		{"go", func(context.Context) (string, error) { return strings.TrimPrefix(runtime.Version(), "go"), nil }},
		{"postgresql", func(ctx context.Context) (string, error) { return postgres(ctx, "server_version") }},
		{"fsync", func(ctx context.Context) (string, error) { return postgres(ctx, "fsync") }},
		{"fullpagewrites", func(ctx context.Context) (string, error) { return postgres(ctx, "full_page_writes") }},
		{"rabbitmq", rabbitMQ},
		{"kafka", kafka},
		{"python", func(ctx context.Context) (string, error) { return python(ctx, "platform.python_version()") }},
		{"celery", func(ctx context.Context) (string, error) { return python(ctx, "metadata.version('celery')") }},
		{"peer", func(ctx context.Context) (string, error) { return python(ctx, "metadata.version('swh.scheduler')") }},
	} {
		value, err := fact.find(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "machine: %s: %v\n", fact.key, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %s\n", fact.key, value)
	}
}

// memory returns the machine's memory in GiB.
func memory(context.Context) (string, error) {
	kib, err := field("/proc/meminfo", `MemTotal: *(\d+)`)
	n, _ := strconv.Atoi(kib)
	return fmt.Sprintf("%.0f GiB", float64(n)/(1<<20)), err
}

func system(context.Context) (string, error) {
	return field("/etc/os-release", `(?m)^PRETTY_NAME="?([^"\n]*)`)
}

// field returns the text in a file that the group of a pattern matches.
func field(path, pattern string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
		return string(m[1]), nil
	}
	return "", fmt.Errorf("%s has no %s", path, pattern)
}

// postgres returns the first word of a setting of the server.
func postgres(ctx context.Context, setting string) (value string, err error) {
	conn, err := pgx.Connect(ctx, os.Getenv(throwaway.PostgresVar))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "select current_setting($1)", setting).Scan(&value)
	value, _, _ = strings.Cut(value, " ")
	return value, err
}

func rabbitMQ(context.Context) (string, error) {
	conn, err := amqp.Dial(os.Getenv(throwaway.RabbitMQVar))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return fmt.Sprint(conn.Properties["version"]), nil
}

// kafka returns the version that the brokers' API versions suggest.
func kafka(ctx context.Context) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv(throwaway.KafkaVar), ",")...))
	if err != nil {
		return "", err
	}
	defer client.Close()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return "", err
	}
	for _, broker := range versions.Sorted() {
		return strings.TrimPrefix(broker.VersionGuess(), "v"), broker.Err
	}
	return "", fmt.Errorf("no broker")
}

func python(ctx context.Context, expression string) (string, error) {
	out, err := exec.CommandContext(ctx, os.Getenv(throwaway.PythonVar), "-c",
		"import platform; from importlib import metadata; print("+expression+")").Output()
	return strings.TrimSpace(string(out)), err
}
