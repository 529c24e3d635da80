package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// signing runs scripts in a directory with the keys ours and theirs. verify is the script of docs/how-to/secure.md.
type signing struct{ dir, verify string }

func newSigning(t *testing.T) signing {
	t.Helper()
	s := signing{dir: t.TempDir()}
	if out, err := s.run(`for key in ours theirs; do ssh-keygen -q -t ed25519 -N '' -f $key; done
		echo "releases $(cat ours.pub)" >allowed_signers; mkdir files; echo program >files/program.tar.gz`); err != nil {
		t.Fatalf("%v %s: apt-get install openssh-client", err, out)
	}
	document := testenv.Read(t, "../docs/how-to/secure.md")
	start := strings.Index(string(document), "\nssh-keygen -Y verify")
	verify, _, _ := strings.Cut(string(document)[start:], "```")
	s.verify = strings.Replace(strings.TrimSpace(verify), "allowed_signers", s.dir+"/allowed_signers", 1)
	return s
}

func (s signing) run(script string, environment ...string) (string, error) {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = s.dir, slices.Concat(os.Environ(), []string{"RELEASE_KEY="}, environment)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The verification of docs/how-to/secure.md accepts a signed release, and refuses one that was changed afterwards or
// signed by another key. A release without a key says that it is unsigned.
func TestReleasesAreSigned(t *testing.T) {
	t.Parallel()
	s := newSigning(t)
	sign, err := filepath.Abs("release/sign")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, key, change string
		verified          bool
	}{
		{"signed", s.dir + "/ours", "", true},
		{"the key's path is relative", "ours", "", true},
		{"a changed program", s.dir + "/ours", "echo other >program.tar.gz", false},
		{"changed checksums", s.dir + "/ours", "echo other >program.tar.gz; sha256sum program.tar.gz >SHA256SUMS", false},
		{"another's key", s.dir + "/theirs", "", false},
		{"no key", "", "grep -q '^# Not signed' SHA256SUMS", false},
	} {
		out, err := s.run("rm -f files/SHA256SUMS*; echo program >files/program.tar.gz; "+sign+" files; cd files; "+tc.change, "RELEASE_KEY="+tc.key)
		if err != nil {
			t.Fatalf("%s: %v %s", tc.name, err, out)
		}
		if out, err := s.run("cd files; " + s.verify); (err == nil) != tc.verified {
			t.Errorf("%s: %v %s", tc.name, err, out)
		}
	}
}

// noGo replaces Go in a release: its programs do nothing. Only the check for vulnerabilities is real, if GOVULNDB is
// set.
const noGo = `#!/bin/sh
case $1 in
run) [ -z "$GOVULNDB" ] || exec "$REAL_GO" "$@" ;;
build)
	while [ "$1" != -o ]; do shift; done
	echo '#!/bin/sh' >"$2"
	chmod +x "$2"
	;;
env) pwd ;; # GOROOT, where a LICENSE is
esac
`

// A release is signed with the key of the environment. Without an answer of the vulnerability database a release
// fails, but no other target does.
func TestReleasesAreBuiltAndSigned(t *testing.T) {
	t.Parallel()
	s := newSigning(t)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.dir+"/tools", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir+"/tools/go", []byte(noGo), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := s.run(`mkdir repository; cd "$ROOT"
		cp -R --parents -t "$OLDPWD/repository" .ci/vulncheck LICENSE *.md docs deploy/{release,systemd,config,prometheus,grafana,helm/files}; git init -q "$OLDPWD/repository"`, "ROOT="+root); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	const unreachable = "http://127.0.0.1:1"
	for _, tc := range []struct {
		command, key, database string
		fails                  bool
		want                   string
	}{
		{".ci/vulncheck", "", unreachable, false, "NOT CHECKED: " + unreachable},
		{".ci/vulncheck --strict", "", unreachable, true, "NOT CHECKED: " + unreachable},
		{"deploy/release/build.sh v1.2.3 linux/amd64", "", unreachable, true, "NOT CHECKED: " + unreachable},
		{"deploy/release/build.sh trial linux/amd64", "../ours", unreachable, true, "NOT CHECKED: " + unreachable},
		{"deploy/release/build.sh trial linux/amd64", "", unreachable, false, "# Not signed."},
		{"deploy/release/build.sh v1.2.3 linux/amd64; cd bin/release; " + s.verify, "../ours", "", false, "swh-scheduler-v1.2.3-linux-amd64.tar.gz: OK"},
	} {
		out, err := s.run("cd repository; "+tc.command, "PATH="+s.dir+"/tools:"+os.Getenv("PATH"), "REAL_GO="+goTool,
			"RELEASE_KEY="+tc.key, "GOVULNDB="+tc.database, "SOURCE_DATE_EPOCH=1", "RELEASE_CACHE=")
		if (err != nil) != tc.fails || !strings.Contains(out, tc.want) {
			t.Errorf("%s with the key %q: %v, no %q in %s", tc.command, tc.key, err, tc.want, out)
		}
	}
}

// The image of a release is built from an image with a digest; that of a commit, or a trial, from any.
func TestImagesOfReleasesNeedADigest(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, check, found := strings.Cut(string(dockerfile), "ARG VERSION\nARG BUILDER\nRUN case ")
	check, _, _ = strings.Cut(check, "\n")
	if !found {
		t.Fatal("the Dockerfile checks no digest")
	}
	const digest = "golang@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		version, builder string
		built            bool
	}{
		{"1.2.3", digest, true}, {"1.2.3", "mirror.example/golang:1.26.8@" + digest[7:], true}, {"1.2.3", "golang:1.26.8", false}, {"v2.0", "mirror.example/golang", false},
		{"compose", "golang:1.26.8", true}, {"92cb95d", "swh-scheduler-golang:local", true},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "case "+check)
		cmd.Env = []string{"VERSION=" + tc.version, "BUILDER=" + tc.builder}
		if out, err := cmd.CombinedOutput(); (err == nil) != tc.built {
			t.Errorf("version %s from %s: %v %s", tc.version, tc.builder, err, out)
		}
	}
}

// The Dockerfile and docs/how-to/secure.md have the same command that finds the digest, of the Go in go.mod.
func TestReleasersAreToldHowToSetTheDigest(t *testing.T) {
	t.Parallel()
	dockerfile := strings.ReplaceAll(string(testenv.Read(t, "docker/Dockerfile")), "\n#   ", "\n")
	_, after, _ := strings.Cut(string(testenv.Read(t, "../go.mod")), "\ngo ")
	version, _, _ := strings.Cut(after, "\n")
	_, commands, found := strings.Cut(string(testenv.Read(t, "../docs/how-to/secure.md")), "```shell\ndocker pull golang:"+version+"\n")
	commands, _, _ = strings.Cut(commands, "```")
	if !found || !strings.Contains(commands, "RepoDigests 0}}' golang:"+version+")") || !strings.Contains(dockerfile, commands) {
		t.Errorf("of Go %s, the Dockerfile does not say:\n%s", version, commands)
	}
}
