package throwaway

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// reaper starts processes and kills them, with all their children, when it is closed or this process ends.
//
// The parent-death signal of Linux isn't enough: it reaches only the first process of a server, and none after a
// change of user.
type reaper struct {
	dir  string   // for the data of the processes; removed with them
	fast string   // the same in memory if there is room, otherwise dir
	pipe *os.File // process group ids are written to it; closing it closes the reaper
	cmd  *exec.Cmd

	mu      sync.Mutex
	started sync.WaitGroup
	close   func()
}

// SIGQUIT makes PostgreSQL release its shared memory. The other servers don't need a signal before SIGKILL, as their
// data is removed.
const reaperScript = `
groups=
while read -r group; do groups="$groups -$group"; done
kill -s QUIT -- $groups
sleep 0.5
kill -s KILL -- $groups
for dir; do umount -l "$dir"/disk-*; done 2>/dev/null
rm -rf -- "$@"
`

// newDir creates a temporary directory that other users may enter but not list, in parent or, if that is empty, in
// the system's directory for temporary files.
func newDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "swh-scheduler-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

func newReaper() (_ *reaper, err error) {
	dir, err := newDir("")
	if err != nil {
		return nil, err
	}
	fast := dir
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(fast))
		}
	}()
	if room(sharedMemory) {
		if memory, err := newDir(sharedMemory); err == nil { // else the directory isn't writable
			fast = memory
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	r := &reaper{dir: dir, fast: fast, pipe: write, cmd: exec.Command("sh", "-c", reaperScript, "reaper", dir, fast)}
	r.cmd.Stdin = read
	// A group of its own protects it from Ctrl-C in the terminal.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("start the reaper of services: %w", err)
	}
	r.close = sync.OnceFunc(func() {
		_ = write.Close()
		_ = r.cmd.Wait()
		r.started.Wait()
	})
	return r, nil
}

// process is a started process.
type process struct {
	pid  int           // also the id of its process group
	log  string        // path of its output
	died chan struct{} // closed when it has ended
}

// start starts cmd in a process group of its own, with its output in a log under the reaper's directory.
func (r *reaper) start(log *slog.Logger, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{log: filepath.Join(r.dir, name+".log"), died: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true

	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	r.started.Go(func() {
		_ = cmd.Wait()
		close(p.died)
	})
	if _, err := fmt.Fprintln(r.pipe, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("the reaper of services is gone: %w", err)
	}
	log.Debug("started", "server", name, "pid", cmd.Process.Pid, "log", p.log)
	return p, nil
}

// explain adds the end of the process's log to an error.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	const keep = 2000
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return err
	}
	return fmt.Errorf("%w\nits log ends:\n%s", err, strings.TrimSpace(string(text[max(0, len(text)-keep):])))
}
