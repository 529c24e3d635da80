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

// Child is a program started by the test, with its descendants. It leads a process group, which ends as a whole. The
// kernel kills it when the thread that started it ends, so a goroutine that has locked its thread must outlive its
// children.
type Child struct {
	Name string // also of its log

	t    testing.TB
	log  string // path
	argv []string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // its exit; valid after done
	gone bool          // its group has ended, whose number another group may have
}

// StartChild starts a program whose output is appended to a log in a directory. It is killed when the test ends.
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
	defer func() { _ = log.Close() }() // the child has its own descriptor
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

// Kill kills the child's group.
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

// Stop sends SIGTERM to the child, kills the rest of its group after the bound, and returns its exit. It signals only
// the leader, as Celery's child processes would die in the middle of a task.
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

// Ended reports whether the child has ended, and its exit.
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
