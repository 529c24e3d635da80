package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// tool is a download tool that fails, as without a network, if the file "broken" exists, after it has written a part
// of its output.
const tool = `#!/bin/sh
down() { [ ! -e "$TOOLS/../broken" ] || { echo "${0##*/}: connection refused" >&2; exit 1; }; }
case "${0##*/} $*" in
"go env GOVERSION") echo go1.20 ;;
"go env GO"*) echo x ;;
"go mod download "*)
	d=$GOMODCACHE/$3; mkdir -p "$d/bin" "$d/pkg/tool/x"; down
	cp "$0" "$d/bin/go"; touch "$d/pkg/tool/x/link" ;;
"mvn "*) for last; do :; done; d=${last#*=}; mkdir -p "$d"; down; touch "$d/kafka_2.13.jar" ;;
"python3 -m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/pip" ;;
"pip "*) down; touch "${0%pip}celery" ;;
"npm "*) down ;;
"sha256sum "*) cat >/dev/null ;; # else its writer may find the pipe closed
"tar "*) mkdir package; touch package/axe.min.js ;;
"apt-get -q update") ;;
"apt-get "*install*)
	[ -e "$TOOLS/../packages" ] || { echo "the system's packages are none of this test's business" >&2; exit 1; }
	echo prometheus.service >>"$TOOLS/../enabled"; echo epmd.socket >>"$TOOLS/../enabled"
	cp "$0" "$TOOLS/promtool" ;;
"id -u") echo 1000 ;;
"sudo "*) shift; case $1 in apt-get|systemctl) "$@" ;; *) cat >/dev/null ;; esac ;; # it writes nothing outside
"systemctl --root=/ --quiet is-enabled "*) grep -qx "$4" "$TOOLS/../enabled" ;;
"systemctl --root=/ disable "*) sed -i "/^$3\$/d" "$TOOLS/../enabled" ;;
esac
`

// A failed download ends the installation with the download's error, and leaves nothing that the next run considers
// complete. That run repairs it.
func TestFailedDownloadIsRepaired(t *testing.T) {
	t.Parallel()
	goMod := testenv.Read(t, "../../go.mod")
	_, version, _ := strings.Cut(string(goMod), "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	for name, c := range map[string]struct{ what, made string }{
		"go":  {"go", "go" + version + "/bin/go"},
		"pip": {"all", "python/bin/celery"},
		"mvn": {"kafka", "kafka/kafka_2.13.jar"},
		"npm": {"all", "axe-core-4.14.1.js"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tools, cache := filepath.Join(dir, "tools"), filepath.Join(dir, "cache")
			broken, made := filepath.Join(dir, "broken"), filepath.Join(cache, c.made)
			if err := os.Mkdir(tools, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"apt-get", "go", "mvn", "python3", "java", "psql", "promtool", "pgbouncer", "systemd-analyze", "chromium-headless-shell", "npm", "sha256sum", "tar"} {
				if err := os.WriteFile(filepath.Join(tools, name), []byte(tool), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			install := func() (string, error) {
				cmd := exec.Command("./install.sh", c.what)
				cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "TOOLS="+tools, "SWH_SCHEDULER_CACHE="+cache,
					// With these, it needs no servers, and makes the Python environment.
					"SWH_TEST_POSTGRES_URL=x", "SWH_TEST_RABBITMQ_URL=x", "SWH_TEST_RABBITMQ_MANAGEMENT_URL=x", "SWH_TEST_KAFKA_BROKERS=x", "SWH_TEST_PYTHON=")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if c.what == "all" { // the rest of its downloads
				if out, err := install(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				last := map[string]string{"pip": "python/requirements.txt", "npm": c.made}[name] // without this file the rest is incomplete
				if err := os.Remove(filepath.Join(cache, last)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(broken, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				out, err := install()
				if err == nil || !strings.Contains(out, name+": connection refused\ninstall: failed: ") {
					t.Errorf("without a network: %v, want the error of %s:\n%s", err, name, out)
				}
				if advised := strings.Contains(out, "\ninstall: the package that pip names "); advised != (name == "pip") {
					t.Errorf("advises what to do about packages: %v\n%s", advised, out)
				}
				if _, err := os.Stat(made); err == nil {
					t.Errorf("%s is there", made)
				}
			}
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
			if out, err := install(); err != nil {
				t.Errorf("with a network: %v\n%s", err, out)
			}
			if _, err := os.Stat(made); err != nil {
				t.Error(err)
			}
			if out, err := install(); err != nil || out != "" {
				t.Errorf("with all in place: %v\n%s", err, out)
			}
		})
	}
}

// The installation disables the services that packages have enabled, and no other.
func TestInstallingEnablesNoDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools")
	for _, path := range []string{tools, filepath.Join(dir, "packages")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"apt-get", "go", "mvn", "python3", "java", "psql", "systemd-analyze", "systemctl", "sudo", "id", "npm", "sha256sum", "tar"} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(tool), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	enabled := filepath.Join(dir, "enabled")
	if err := os.WriteFile(enabled, []byte("rabbitmq-server.service\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The script gets only the machine's programs that it needs: promtool is missing.
	for _, name := range []string{"bash", "sh", "cat", "cp", "chmod", "cmp", "dirname", "env", "find", "flock", "gcc", "git", "grep", "head", "ls", "mkdir", "mv", "rm", "sed", "sort", "tail", "tee", "touch", "timeout", "xargs"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "./install.sh", "all")
	cmd.Env = append(os.Environ(), "PATH="+tools, "TOOLS="+tools, "SWH_SCHEDULER_CACHE="+filepath.Join(dir, "cache"),
		"SWH_TEST_POSTGRES_URL=x", "SWH_TEST_RABBITMQ_URL=x", "SWH_TEST_RABBITMQ_MANAGEMENT_URL=x", "SWH_TEST_KAFKA_BROKERS=x", "SWH_TEST_PYTHON=x")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "installing packages: prometheus") {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := testenv.Read(t, enabled); string(after) != "rabbitmq-server.service\n" {
		t.Errorf("enabled after: %q", after)
	}
}
