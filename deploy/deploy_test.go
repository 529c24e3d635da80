// Package deploy_test checks the files beside it with the program and with the services' own tools.
package deploy_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/cli"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
)

// Every shipped configuration is usable unchanged, without warnings.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || (filepath.Base(filepath.Dir(path)) != "config" && entry.Name() != "scheduler.yml") || entry.IsDir() {
			return err
		}
		found++
		c, warnings, err := config.Load(path)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", path, err, warnings)
		} else if c.Scheduler.DB == "" {
			t.Errorf("%s names no database", path)
		}
		return nil
	})
	if err != nil || found < 3 {
		t.Errorf("found %d configurations, %v", found, err)
	}
}

// No sample sends a password to another host in plain text.
func TestSamplesUseTLS(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"config/scheduler.yml", "config/rpc.yml", "config/listener.yml"} {
		c, _, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		broker, err := c.Broker()
		if err != nil && c.Celery.TaskBroker != "" {
			t.Fatal(err)
		}
		for what, fine := range map[string]bool{
			"the database":       strings.HasSuffix(string(c.Scheduler.DB), "?sslmode=verify-full"),
			"the broker":         strings.HasPrefix(broker.String(), "amqps://") || c.Celery.TaskBroker == "", // or none is named
			"the management API": c.RabbitMQ.ManagementURL == "" || strings.HasPrefix(string(c.RabbitMQ.ManagementURL), "https://"),
			"Kafka":              len(c.Journal.Brokers) == 0 || strings.HasSuffix(c.Journal.ConsumerSettings["security.protocol"], "SSL"),
			"the RPC":            file != "config/rpc.yml" || c.RPCServe.TLSCertificate != "",
		} {
			if !fine {
				t.Errorf("%s: %s is reached without TLS, or without checking who it is", file, what)
			}
		}
	}
}

// systemd accepts the units, and rates the daemons' exposure at most 1.5, where 0 is best and 10 worst.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	unit := testenv.Read(t, "systemd/swh-scheduler@.service")
	target := testenv.Read(t, "systemd/swh-scheduler.target")
	const program = "/usr/bin/swh-scheduler" // systemd checks that it exists
	if !strings.Contains(string(unit), "ExecStart="+program+" ") {
		t.Fatalf("the unit does not start %s", program)
	}
	dir := t.TempDir()
	instance := filepath.Join(dir, "swh-scheduler@runner.service")
	const dropIn = "swh-scheduler@rpc.service.d/tls.conf"
	const ownFile = "swh-scheduler@.service.d/00-file.conf"
	tls, own := testenv.Read(t, "systemd/"+dropIn), testenv.Read(t, "systemd/file-per-daemon.conf")
	rpc := filepath.Join(dir, "swh-scheduler@rpc.service")
	for _, file := range []string{dropIn, ownFile} {
		if err := os.Mkdir(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(own), "/swh-scheduler@.service.d/00-file.conf") { // before tls.conf, which adds to the settings that it resets
		t.Error("file-per-daemon.conf doesn't say where it belongs")
	}
	for path, text := range map[string]string{
		rpc:                         strings.ReplaceAll(string(unit), program, "/bin/sh"),
		filepath.Join(dir, dropIn):  string(tls),
		filepath.Join(dir, ownFile): string(own),
		instance:                    strings.ReplaceAll(string(unit), program, "/bin/sh"),
		filepath.Join(dir, "swh-scheduler.target"): string(target),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"verify", "--man=no", "--recursive-errors=one", instance, rpc},
		{"security", "--no-pager", "--offline=yes", "--threshold=15", instance},
	} {
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		out, err := cmd.CombinedOutput()
		if err != nil || (args[0] == "verify" && len(out) > 0) {
			t.Errorf("%s: %v\n%s", cmd, err, out)
		}
	}
}

// Each daemon's sample gives a command line that the program accepts, and an address of its own for metrics.
func TestSystemdSamples(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("systemd/env/*.env")
	if err != nil || len(samples) == 0 {
		t.Fatalf("found %d samples, %v", len(samples), err)
	}
	addresses := map[string]string{}
	for _, sample := range samples {
		text := testenv.Read(t, sample)
		variables := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			variables[name] = strings.Trim(value, `"`)
		}
		address := variables["SWH_SCHEDULER_METRICS_ADDR"]
		if other := addresses[address]; address == "" || other != "" {
			t.Errorf("%s: metrics at %q, as %q", sample, address, other)
		}
		addresses[address] = sample
		// With --help the program checks the options and ends.
		args := append(strings.Fields(variables["COMMAND"]), "--help")
		var out bytes.Buffer
		if code := cli.Run(t.Context(), "", args, &out, &out); code != 0 || !strings.Contains(out.String(), "swh-scheduler "+args[0]) {
			t.Errorf("%s: %q: exit code %d\n%s", sample, args, code, &out)
		}
	}
}

// All shipped files and the pages have the configuration in one directory. The archive's charts have another, which
// their image keeps.
func TestOneDirectory(t *testing.T) {
	t.Parallel()
	inEtc := regexp.MustCompile(`/etc/(swh|softwareheritage)[-\w]*(/[-\w%.]+)*`)
	fine := regexp.MustCompile(`^/etc/softwareheritage(/scheduler\.yml|/scheduler(/[-\w%]+\.(env|yml|crt|key))?)?$`)
	ofCharts := []string{"docker/archive/", "archive_image_test.go", "deploy_test.go", "../docs/how-to/replace.md", "../docs/reference/configuration.md"}
	found := 0
	for _, root := range []string{".", "../docs", "../README.md"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if path == "../docs/devel/before-1.0.md" {
				return nil // the past
			}
			for _, name := range inEtc.FindAllString(string(testenv.Read(t, path)), -1) {
				found++
				charts := strings.HasPrefix(name, "/etc/swh/") || name == "/etc/swh"
				if !fine.MatchString(strings.TrimRight(name, "./")) && !(charts && slices.ContainsFunc(ofCharts, func(p string) bool { return strings.HasPrefix(path, p) })) {
					t.Errorf("%s: %s", path, name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("%d paths are found", found)
	}
}
