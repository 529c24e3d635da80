package throwaway

import (
	"bufio"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// When the pipe closes, as it does when its holder is killed, the reaper kills every process of a server and removes
// the data. It also kills children and processes that ignore signals.
func TestReaperEndsServersAndTheirChildren(t *testing.T) {
	t.Parallel()
	r, err := newReaper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	var processes []*process
	for _, name := range []string{"first", "second"} {
		p, err := r.start(slog.New(slog.DiscardHandler), name,
			exec.Command("sh", "-c", `trap "" QUIT TERM INT; sleep 1000 & echo $!; wait`))
		if err != nil {
			t.Fatal(err)
		}
		processes = append(processes, p)
	}
	var children []int
	for _, p := range processes {
		children = append(children, childOf(t, p))
	}
	if err := r.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("the reaper: %v", err)
	}
	for _, p := range processes {
		<-p.died
	}
	for _, child := range children {
		// A killed process takes a moment to die, and may stay in the process table until its new parent waits for
		// it.
		deadline := time.Now().Add(time.Minute)
		for state := stateOf(child); state != "" && state != "Z"; state = stateOf(child) {
			if time.Now().After(deadline) {
				t.Fatalf("child %d is still there, state %s", child, state)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, dir := range []string{r.dir, r.fast} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the data directory %s is still there (%v)", dir, err)
		}
	}
}

// A reaper that fails to start leaves no files behind.
func TestReaperWithoutShell(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	t.Setenv("PATH", "")
	if _, err := newReaper(); err == nil || !strings.Contains(err.Error(), "start the reaper") {
		t.Errorf("%v, want that it can't be started", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// childOf returns the process id in the process's output.
func childOf(t *testing.T, p *process) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		out, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		if line, found := strings.CutSuffix(string(out), "\n"); found {
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		select {
		case <-p.died:
			t.Fatalf("the process ended early: %s", out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the process does not say who its child is")
	return 0
}

// stateOf returns the letter of a process's state, "" if there is no such process.
func stateOf(pid int) string {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if state, found := strings.CutPrefix(lines.Text(), "State:\t"); found {
			return state[:1]
		}
	}
	return ""
}

// A server that dies while starting is reported at once, with the end of its log.
func TestDeathWhileStartingIsExplained(t *testing.T) {
	t.Parallel()
	r, err := newReaper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	p, err := r.start(slog.New(slog.DiscardHandler), "server", exec.Command("sh", "-c", "head -c 100000 /dev/zero; echo no room; exit 1"))
	if err != nil {
		t.Fatal(err)
	}
	ports, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	err = p.explain(waitReady(t.Context(), p.died, listening(ports[0])))
	if err == nil || !strings.HasSuffix(err.Error(), "no room") || len(err.Error()) > 3000 {
		t.Errorf("the error is %.3000v, want the log's end in it", err)
	}
}

// Ctrl-C in a terminal signals the foreground process group, in which neither the reaper nor a server may be.
func TestServersAreOutOfReachOfCtrlC(t *testing.T) {
	t.Parallel()
	r, err := newReaper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	cmd := exec.Command("sleep", "1000")
	if _, err := r.start(slog.New(slog.DiscardHandler), "server", cmd); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{r.cmd.Process.Pid, cmd.Process.Pid} {
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("process %d is in group %d (%v), want its own", pid, group, err)
		}
	}
}
