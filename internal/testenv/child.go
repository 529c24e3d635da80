package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Child is a program beside the test, with all that it starts: it leads a process group, which
// is ended as a whole. The kernel kills it when the thread that started it ends: a goroutine
// that has locked its thread must outlive its children.
type Child struct {
	Name string // that of its log, too

	t    testing.TB
	log  string // path
	argv []string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how it ended; valid after done
	gone bool          // with its group, whose number may be another's by now
}

// StartChild starts a program that adds what it prints to a log in a directory. It is killed
// when the test ends.
func StartChild(t testing.TB, dir, name string, argv ...string) *Child {
	t.Helper()
	c := &Child{Name: name, t: t, log: filepath.Join(dir, name+".log"), argv: argv}
	c.start()
	t.Cleanup(c.Kill)
	return c
}

func (c *Child) start() {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd, done := exec.Command(c.argv[0], c.argv[1:]...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("start %s: %v", c.Name, err)
	}
	c.cmd, c.done, c.gone = cmd, done, false
	go func() {
		c.err = cmd.Wait()
		close(done)
	}()
}

// Kill ends the child with all of its group.
func (c *Child) Kill() {
	if !c.gone {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.done
		c.gone = true
	}
}

// Restart kills the child, and starts it again.
func (c *Child) Restart() {
	c.t.Helper()
	c.Kill()
	c.start()
}

// Stop asks the child to end (SIGTERM), kills what is left of its group after the bound, and
// returns how it ended. It asks only the leader: children of Celery's would die in mid-task.
func (c *Child) Stop(bound time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	c.Kill()
	return c.err
}

// Ended reports whether the child has ended, and how.
func (c *Child) Ended() (ended bool, how error) {
	select {
	case <-c.done:
		return true, c.err
	default:
		return false, nil
	}
}

// Tail returns the last lines of the log.
func (c *Child) Tail(n int) string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
