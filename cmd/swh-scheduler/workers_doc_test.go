package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// The workers of docs/how-to/workers.md work as they stand, with the addresses changed.
func TestWorkersDocument(t *testing.T) {
	t.Parallel()
	text := testenv.Read(t, filepath.Join("..", "..", "docs", "how-to", "workers.md"))
	files := regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	ran := 0
	for _, f := range files {
		if !strings.HasSuffix(f[1], ".sh") {
			continue
		}
		ran++
		t.Run(f[1], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addresses := strings.NewReplacer("postgresql://swh@localhost/scheduler", testenv.PeerDatabase(t), "amqp://guest:guest@localhost:5672/%2F", testenv.RabbitMQ(t).URL)
			for _, f := range files {
				if err := os.WriteFile(filepath.Join(dir, f[1]), []byte(addresses.Replace(f[2])), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(binary, filepath.Join(dir, "swh-scheduler")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "timeout", "180", "bash", "-e", f[1])
			cmd.Dir = dir
			cmd.Env = environment("PATH="+dir+":"+filepath.Dir(testenv.Python(t))+":"+os.Getenv("PATH"), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.WaitDelay = time.Second
			output, err := os.Create(filepath.Join(dir, "output"))
			if err != nil {
				t.Fatal(err)
			}
			defer output.Close()
			cmd.Stdout, cmd.Stderr = output, output
			err = cmd.Run()
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what goes on in the background
			said, _ := os.ReadFile(output.Name())
			if err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
	if ran != 2 {
		t.Errorf("%d scripts were run", ran)
	}
}
