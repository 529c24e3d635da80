package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dpkg orders the versions of packages as the releases.
func TestVersions(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 11, 27, 7, 4, 5, 0, time.UTC)
	for _, tc := range []struct{ release, want string }{
		{"1.2.3", "1.2.3"}, {"v1.2.3", "1.2.3"}, {"v2", "2"},
		{"v1.2.3-rc1", "1.2.3~rc1"}, {"v1.2.3-rc1-2-gabc", "1.2.3~rc1.2.gabc"},
		{"v1.2.3-5-gdb93a8b", "1.2.3+5.gdb93a8b"}, {"v1.2.3-5-gdb93a8b-dirty", "1.2.3+5.gdb93a8b.dirty"}, {"v1.2.3-dirty", "1.2.3+dirty"},
		{"db93a8b", "0~20261127.070405.db93a8b"}, {"1234567", "0~20261127.070405.1234567"}, {"1234567-dirty", "0~20261127.070405.1234567.dirty"},
		{"trial", "0~20261127.070405.trial"}, {"a_b:c", "0~20261127.070405.a.b.c"},
	} {
		if got := packageVersion(tc.release, when); got != tc.want {
			t.Errorf("%s: %s, not %s", tc.release, got, tc.want)
		}
	}
	order := []string{"trial", "v1.2.3-rc1", "v1.2.3-rc2", "v1.2.3", "v1.2.3-5-gabc", "v1.2.3-10-gabc", "v1.2.4-rc1", "v1.2.4"}
	for n := range order[1:] {
		a, b := packageVersion(order[n], when), packageVersion(order[n+1], when)
		if out, err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
			t.Errorf("%s is not before %s: %v %s", a, b, err, out)
		}
	}
}

// release makes the directory that build.sh passes to packages.
func release(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		copyTo(t, filepath.Join("../..", name), filepath.Join(dir, name))
	}
	for from, to := range map[string]string{"../../docs": "docs", "../systemd": "systemd", "../config": "config"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"prometheus", "grafana"} {
		if out, err := exec.CommandContext(t.Context(), "cp", "-RL", filepath.Join("..", name), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "LICENSES"), 0o700); err != nil {
		t.Fatal(err)
	}
	copyTo(t, "../../LICENSE", filepath.Join(dir, "LICENSES", "go"))
	if err := os.WriteFile(filepath.Join(dir, "swh-scheduler"), []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// entry is a file of a package: its text and its attributes.
type entry struct {
	mode        fs.FileMode
	owner, text string
}

// unpack returns the files of a part of a .deb (data.tar.gz) by path.
func unpack(t *testing.T, deb, part string) map[string]entry {
	t.Helper()
	packed, err := exec.CommandContext(t.Context(), "ar", "p", deb, part).Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]entry{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(strings.TrimSuffix(h.Name, "/"), ".")] = entry{fs.FileMode(h.Mode), h.Uname + " " + h.Gname, string(text)}
	}
}

// A package has its files where systemd, man, shells and people expect them, and only root reads files that may have
// passwords. Equal files in another directory give equal bytes.
func TestContents(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	out := [2]string{t.TempDir(), t.TempDir()}
	for _, o := range out {
		if err := run(release(t), "v1.2.3", "arm64", o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"swh-scheduler_1.2.3_arm64.deb", "swh-scheduler-1.2.3-1.aarch64.rpm"} {
		var text [2][]byte
		for n, o := range out {
			var err error
			if text[n], err = os.ReadFile(filepath.Join(o, name)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(text[0], text[1]) {
			t.Errorf("%s is not the same twice", name)
		}
	}
	deb := filepath.Join(out[0], "swh-scheduler_1.2.3_arm64.deb")
	data, control := unpack(t, deb, "data.tar.gz"), unpack(t, deb, "control.tar.gz")
	for path, want := range map[string]entry{
		"/usr/bin/swh-scheduler":                                                     {0o755, "root root", "the program"},
		"/usr/lib/systemd/system/swh-scheduler@.service":                             {0o644, "root root", "ExecStart=/usr/bin/swh-scheduler "},
		"/usr/lib/systemd/system/swh-scheduler.target":                               {0o644, "root root", "WantedBy=multi-user.target"},
		"/etc/softwareheritage/scheduler":                                            {0o750, "root swh-scheduler", ""},
		"/etc/softwareheritage/scheduler/runner.env":                                 {0o600, "root root", "start-runner"},
		"/usr/share/doc/swh-scheduler/examples/file-per-daemon.conf":                 {0o644, "root root", "/scheduler/%i.yml"},
		"/usr/share/doc/swh-scheduler/examples/listener.yml":                         {0o644, "root root", "cls: postgresql"},
		"/usr/share/doc/swh-scheduler/examples/prometheus/alerts.yml":                {0o644, "root root", "runbook_url"},
		"/usr/share/doc/swh-scheduler/examples/prometheus/scrape.yml":                {0o644, "root root", "scrape_configs"},
		"/usr/share/doc/swh-scheduler/examples/grafana/swh-scheduler.json":           {0o644, "root root", "panels"},
		"/usr/share/doc/swh-scheduler/examples/scheduler.yml":                        {0o644, "root root", "cls: postgresql"},
		"/usr/share/doc/swh-scheduler/examples/swh-scheduler@rpc.service.d/tls.conf": {0o644, "root root", "LoadCredential=rpc.key:"},
		"/usr/share/doc/swh-scheduler/docs/how-to/install.md":                        {0o644, "root root", "apt"},
		"/usr/share/doc/swh-scheduler/copyright":                                     {0o644, "root root", "GPL-3.0-or-later"},
		"/usr/share/doc/swh-scheduler/LICENSES/go":                                   {0o644, "root root", "GNU"},
		"/usr/share/bash-completion/completions/swh-scheduler":                       {0o644, "root root", "__complete"},
		"/usr/share/zsh/vendor-completions/_swh-scheduler":                           {0o644, "root root", "#compdef swh-scheduler"},
		"/usr/share/fish/vendor_completions.d/swh-scheduler.fish":                    {0o644, "root root", "complete -c swh-scheduler"},
		"/usr/share/man/man1/swh-scheduler-start-runner.1.gz":                        {0o644, "root root", ""},
		"/usr/share/man/man1/swh-scheduler.1.gz":                                     {0o644, "root root", ""},
		"/usr/share/doc/swh-scheduler/CHANGELOG.md":                                  {0o644, "root root", ""},
	} {
		if got, found := data[path]; !found || got.mode.Perm() != want.mode || got.owner != want.owner || !strings.Contains(got.text, want.text) {
			t.Errorf("%s: %v, %v %s, without %q", path, found, got.mode, got.owner, want.text)
		}
	}
	if c := control["/control"].text; !strings.Contains(c, "Version: 1.2.3\n") || !strings.Contains(c, "Architecture: arm64\n") || !strings.Contains(c, "Pre-Depends: passwd\n") {
		t.Errorf("control: %s", c)
	}
	conffiles := strings.Fields(control["/conffiles"].text)
	if samples, err := filepath.Glob("../systemd/env/*.env"); err != nil || len(conffiles) != len(samples) {
		t.Errorf("conffiles: %q; %d samples, %v", conffiles, len(samples), err)
	}
	// Files for operators are not the package's: a purge would remove them.
	for _, path := range conffiles {
		if !strings.HasPrefix(path, "/etc/softwareheritage/scheduler/") || !strings.HasSuffix(path, ".env") {
			t.Errorf("%s is a conffile", path)
		}
	}
}

// Each command has a page, with the options of its help.
func TestPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := makePages(dir, "v1.2.3", time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	for page, want := range map[string]string{
		"swh-scheduler.1.gz":                 "--config-file",
		"swh-scheduler-migrate.1.gz":         "scheduler_go_<daemon>__<database>",
		"swh-scheduler-start-runner.1.gz":    "--with-priority",
		"swh-scheduler-task-graph-show.1.gz": "task graph show",
	} {
		packed, err := os.ReadFile(filepath.Join(dir, "man1", page))
		if err != nil {
			t.Error(err)
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if plain := strings.ReplaceAll(string(text), `\-`, "-"); err != nil || !strings.Contains(plain, want) || !strings.Contains(plain, "swh-scheduler v1.2.3") {
			t.Errorf("%s lacks %q, %v:\n%s", page, want, err, text)
		}
	}
}
