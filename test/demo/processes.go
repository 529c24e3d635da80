package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running child: one of our daemons or a Celery worker.
type process struct {
	name string
	log  string // the file that holds its output
	argv []string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how it ended; valid after done

	stopped time.Duration // how long it took to stop; valid after processes.stop
}

// processes starts children that cannot outlive the demo: each leads a process
// group of its own, which is ended as a whole, and is killed by the kernel if
// the demo dies without ending it.
type processes struct {
	dir   string        // of the log files
	env   []string      // of all children
	ended chan *process // those that ended unasked

	mu      sync.Mutex
	running []*process // those that were not asked to end
}

func newProcesses(dir string, env []string) *processes {
	return &processes{dir: dir, env: env, ended: make(chan *process, 16)}
}

// The kernel sends a child the death signal when the *thread* that started it ends: those that
// live long are started by this goroutine, whose thread lives as long as the demo.
func init() { runtime.LockOSThread() }

func (p *processes) command(argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start runs a long-lived child whose output goes to a log file.
func (p *processes) start(name string, argv ...string) error {
	path := filepath.Join(p.dir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	child := &process{name: name, log: path, argv: argv, cmd: p.command(argv), done: make(chan struct{})}
	child.cmd.Stdout, child.cmd.Stderr = log, log
	if err := child.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.mu.Lock()
	p.running = append(p.running, child)
	p.mu.Unlock()
	go func() {
		child.err = child.cmd.Wait()
		p.mu.Lock()
		unasked := slices.Contains(p.running, child)
		p.mu.Unlock()
		close(child.done)
		if unasked {
			p.ended <- child
		}
	}()
	return nil
}

// run runs a command to its end and returns what it printed.
func (p *processes) run(ctx context.Context, argv ...string) (string, error) {
	cmd := p.command(argv)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	line := filepath.Base(argv[0]) + " " + strings.Join(argv[1:], " ")
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, errors.Join(err, ctx.Err()), strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// stop ends all children with SIGTERM, unless the bound is 0, and with SIGKILL those that have
// not ended within it. It returns them with how they ended.
func (p *processes) stop(bound time.Duration) []*process {
	p.mu.Lock()
	children := p.running
	p.running = nil
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, child := range children {
		all.Go(func() { child.stop(bound) })
	}
	all.Wait()
	return children
}

func (c *process) stop(bound time.Duration) {
	start := time.Now()
	if bound > 0 {
		// Only the leader: Celery's pool children would die of it in mid-task.
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(bound)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
		}
	}
	c.stopped = time.Since(start)
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // what is left of its group
	<-c.done
}

// restart kills a child with its group, and starts it again.
func (p *processes) restart(name string) error {
	p.mu.Lock()
	i := slices.IndexFunc(p.running, func(c *process) bool { return c.name == name })
	if i < 0 {
		p.mu.Unlock()
		return fmt.Errorf("%s doesn't run", name)
	}
	child := p.running[i]
	p.running = slices.Delete(p.running, i, i+1)
	p.mu.Unlock()
	child.stop(0)
	return p.start(name, child.argv...)
}

// lastLines returns the end of a log.
func (c *process) lastLines(n int) string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
