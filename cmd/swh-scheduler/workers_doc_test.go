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

// The worker, listers and loader of docs/tutorials/first-worker.md work as printed, with other addresses. They work with
// the Python scheduler's base class and with plain Celery.
func TestFirstWorker(t *testing.T) {
	t.Parallel()
	text := testenv.Read(t, filepath.Join("..", "..", "docs", "tutorials", "first-worker.md"))
	files := regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	for _, script := range []string{"base-class.sh", "plain.sh"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addresses := strings.NewReplacer(
				"postgresql://swh@localhost/scheduler", testenv.PythonDatabase(t),
				"amqp://guest:guest@localhost:5672/%2F", testenv.RabbitMQ(t).URL,
				"localhost:9092", testenv.Kafka(t)[0],
				"swh.journal.objects", testenv.Journal(t, 1),
				"5008", testenv.FreePort(t),
			)
			for _, f := range files {
				if err := os.WriteFile(filepath.Join(dir, f[1]), []byte(addresses.Replace(f[2])), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(binary, filepath.Join(dir, "swh-scheduler")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "timeout", "180", "bash", "-e", script)
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
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kills child processes in the background
			said := testenv.Read(t, output.Name())
			if err != nil {
				t.Errorf("%v\n%s", err, said)
			}
			_, lanes, _ := strings.Cut(string(said), "TIMED OUT")
			if !regexp.MustCompile(`(?m)^load-example +express .* 1 +\d+ +\d+ +`).MatchString(lanes) {
				t.Errorf("the large repository did not time out in the express lane:\n%s", said)
			}
		})
	}
}
