package throwaway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// server is a local server, which may be restarted.
type server struct {
	*local
	name    string // also of its logs, with the number of the start
	starts  int
	process *process
}

// start starts the server, and returns when it is ready.
func (s *server) start(ctx context.Context, cmd *exec.Cmd, ready func(context.Context) error) (err error) {
	s.starts++
	if s.process, err = s.local.start(s.log, fmt.Sprintf("%s-%d", s.name, s.starts), cmd); err != nil {
		return err
	}
	return s.process.explain(waitReady(ctx, s.process.died, ready))
}

// Kill ends the server with all its processes at once (SIGKILL), and returns when it has ended.
func (s *server) Kill() error {
	err := s.signal(syscall.SIGKILL)
	<-s.process.died
	return err
}

// Pause stops the server's processes (SIGSTOP) with their connections open. Resume lets them continue.
func (s *server) Pause() error  { return s.signal(syscall.SIGSTOP) }
func (s *server) Resume() error { return s.signal(syscall.SIGCONT) }

// signal sends a signal to the server's process group first, so that it starts no more processes. Then it signals the
// children, as each child of PostgreSQL has a process group of its own.
func (s *server) signal(sig syscall.Signal) error {
	pid := s.process.pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err == nil {
		err = syscall.Kill(-pid, sig)
	}
	// A child that was started in between ends by itself, as its parent has ended.
	for child := range strings.FieldsSeq(string(children)) {
		if id, convErr := strconv.Atoi(child); convErr == nil {
			_ = syscall.Kill(id, sig) // it may have ended
		}
	}
	return err
}
