package deploy_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// publishing is a checkout with a release, and programs in place of Docker, Helm, curl and cosign that write down their
// arguments.
type publishing struct{ directory, called string }

func newPublishing(t *testing.T) publishing {
	t.Helper()
	p := publishing{directory: t.TempDir(), called: filepath.Join(t.TempDir(), "called")}
	p.run(t, `mkdir -p deploy/release bin/release programs
		printf '/bin\n/programs\n' >.gitignore
		printf '# Changelog\n\n## 1.2.3 (2026-11-27)\n' >CHANGELOG.md
		cp "$SCRIPT" deploy/release/publish
		for program in docker helm curl cosign; do
			printf '#!/bin/sh\necho "%s $*" >>"$CALLED"\n' $program >programs/$program
			chmod +x programs/$program
		done
		echo "while [ \$# -gt 0 ]; do [ \"\$1\" != --metadata-file ] || echo '{\"containerimage.digest\": \"sha256:abc\"}' >\"\$2\"; shift; done" >>programs/docker
		echo program >bin/release/swh-scheduler-v1.2.3-linux-amd64.tar.gz
		(cd bin/release && sha256sum -- * >SHA256SUMS && echo signature >SHA256SUMS.sig)
		git init -q . && git add --all && git commit -qm release && git tag v1.2.3`)
	return p
}

func (p publishing) command(t *testing.T, script string, environment ...string) *exec.Cmd {
	t.Helper()
	publish, err := filepath.Abs("release/publish")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = p.directory
	cmd.Env = append(os.Environ(), "SCRIPT="+publish, "CALLED="+p.called, "PATH="+p.directory+"/programs:"+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"IMAGES=registry.example.org/swh", "CHARTS=oci://registry.example.org/charts", "FILES=https://files.example.org/swh/", "FILES_HEADER=/run/token",
		"BUILDER=golang@sha256:1", "DEBIAN=debian@sha256:2", "SIGN_IMAGES=yes")
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

func (p publishing) run(t *testing.T, script string) {
	t.Helper()
	if out, err := p.command(t, script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (p publishing) calls(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(p.called)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(content)
}

// A whole release is published: each file, both images for both platforms, signed by digest, and the chart. A dry run
// prints the same commands and runs none.
func TestPublish(t *testing.T) {
	t.Parallel()
	p := newPublishing(t)
	wanted := []string{
		"curl --fail --silent --show-error --header @/run/token --upload-file bin/release/swh-scheduler-v1.2.3-linux-amd64.tar.gz https://files.example.org/swh/1.2.3/swh-scheduler-v1.2.3-linux-amd64.tar.gz",
		"--upload-file bin/release/SHA256SUMS.sig https://files.example.org/swh/1.2.3/SHA256SUMS.sig",
		"docker buildx build --platform linux/amd64,linux/arm64 --provenance=mode=max --sbom=true --push",
		"-f deploy/docker/Dockerfile -t registry.example.org/swh/swh-scheduler:1.2.3 --build-arg BUILDER=golang@sha256:1 --build-arg VERSION=1.2.3 --build-arg REVISION=",
		"-f deploy/docker/archive/Dockerfile -t registry.example.org/swh/swh-scheduler-archive:1.2.3 --build-arg PROGRAM=registry.example.org/swh/swh-scheduler:1.2.3 --build-arg DEBIAN=debian@sha256:2",
		"helm package deploy/helm --version 1.2.3 --app-version 1.2.3 --destination",
		"swh-scheduler-1.2.3.tgz oci://registry.example.org/charts",
	}
	out, err := p.command(t, "deploy/release/publish 1.2.3").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "nothing was published; 0 of its checks failed") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, w := range append(wanted, "cosign sign --yes registry.example.org/swh/swh-scheduler@sha256:DIGEST") {
		if !strings.Contains(strings.ReplaceAll(string(out), `\,`, ","), w) {
			t.Errorf("a dry run doesn't print %q:\n%s", w, out)
		}
	}
	if calls := p.calls(t); calls != "" {
		t.Errorf("a dry run calls\n%s", calls)
	}

	out, err = p.command(t, "deploy/release/publish 1.2.3", "PUBLISH=yes").CombinedOutput()
	if err != nil || string(out) != "publish: 1.2.3 is published\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	calls := p.calls(t)
	for _, w := range append(wanted, "cosign sign --yes registry.example.org/swh/swh-scheduler@sha256:abc") {
		if !strings.Contains(calls, w) {
			t.Errorf("%q is not called:\n%s", w, calls)
		}
	}
}

// What a release must not have stops it before the first call; a dry run reports all of it.
func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, change, environment, message string }{
		{"changed checkout", "echo >new", "", "the checkout has changes that are not committed"},
		{"no tag", "git tag -d v1.2.3", "", "this commit has no tag v1.2.3"},
		{"older changelog", "sed -i s/1.2.3/1.2.2/ CHANGELOG.md; git commit -qam x; git tag -f v1.2.3", "", `the newest version in CHANGELOG.md is "1.2.2", not 1.2.3`},
		{"no date in the changelog", "sed -i 's/(2026-11-27)/(unreleased)/' CHANGELOG.md; git commit -qam x; git tag -f v1.2.3", "", "CHANGELOG.md gives version 1.2.3 no date: ## 1.2.3 (20"},
		{"changed file", "echo other >bin/release/swh-scheduler-v1.2.3-linux-amd64.tar.gz", "", "files in bin/release differ from SHA256SUMS"},
		{"not signed", "rm bin/release/SHA256SUMS.sig", "", "the release is not signed"},
		{"another version's files", "cd bin/release; mv *.gz swh-scheduler-v1.2.2-linux-amd64.tar.gz; sha256sum *.gz >SHA256SUMS", "", "bin/release has no archive of v1.2.3"},
		{"no release", "rm -r bin/release", "", "bin/release has no release"},
		{"no registry", "", "IMAGES=", "IMAGES is not set"},
		{"builder by tag", "", "BUILDER=golang:1", `BUILDER is "golang:1", which may become another image`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPublishing(t)
			p.run(t, tc.change)
			for _, publish := range []string{"PUBLISH=yes", "PUBLISH="} {
				out, err := p.command(t, "deploy/release/publish 1.2.3", publish, cmp.Or(tc.environment, "X=")).CombinedOutput()
				if (err != nil) != (publish == "PUBLISH=yes") || !strings.Contains(string(out), "publish: "+tc.message) {
					t.Errorf("%s: %v\n%s", publish, err, out)
				}
			}
			if calls := p.calls(t); calls != "" {
				t.Errorf("it calls\n%s", calls)
			}
		})
	}
	p := newPublishing(t)
	for _, version := range []string{"", "v1.2.3", "1.2", "latest", "1.2.3;id"} {
		if out, err := p.command(t, "deploy/release/publish '"+version+"'").CombinedOutput(); err == nil || !strings.Contains(string(out), "is no version such as 1.0.0") {
			t.Errorf("%q: %v %s", version, err, out)
		}
	}
}
