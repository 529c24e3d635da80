package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release that was signed is verified as docs/security.md says, and one that was changed
// afterwards, or signed by somebody else, is not; without a key it says that it is not signed.
func TestReleasesAreSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(environment, script string) (string, error) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "RELEASE_KEY="+environment)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sign, err := filepath.Abs("release/sign")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("", `for key in ours theirs; do ssh-keygen -q -t ed25519 -N '' -f $key; done
		echo "releases $(cat ours.pub)" >allowed_signers; mkdir files; echo program >files/program.tar.gz`); err != nil {
		t.Fatalf("%v %s: apt-get install openssh-client", err, out)
	}
	document, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Index(string(document), "\nssh-keygen -Y verify")
	verify, _, _ := strings.Cut(string(document)[start:], "```")
	verify = strings.Replace("cd files; "+strings.TrimSpace(verify), "allowed_signers", "../allowed_signers", 1)
	for _, tc := range []struct {
		name, key, change string
		verified          bool
	}{
		{"signed", dir + "/ours", "", true},
		{"a changed program", dir + "/ours", "echo other >program.tar.gz", false},
		{"changed checksums", dir + "/ours", "echo other >program.tar.gz; sha256sum program.tar.gz >SHA256SUMS", false},
		{"another's key", dir + "/theirs", "", false},
		{"no key", "", "grep -q '^# Not signed' SHA256SUMS", false},
	} {
		out, err := run(tc.key, "rm -f files/SHA256SUMS*; echo program >files/program.tar.gz; "+sign+" files; cd files; "+tc.change)
		if err != nil {
			t.Fatalf("%s: %v %s", tc.name, err, out)
		}
		if out, err := run("", verify); (err == nil) != tc.verified {
			t.Errorf("%s: %v %s", tc.name, err, out)
		}
	}
}
