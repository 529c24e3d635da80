package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Keeping things running takes a process that looks after them, because all
// children end with the one that started them. So with -keep the demo runs
// itself in the background: the keeper does all the work, and the process in
// the foreground only waits until the keeper says that the job is done.

// keeperVar marks the keeper's environment.
const keeperVar = "SWH_DEMO_KEEPER"

// keeper is this process in its role as the one in the background.
type keeper struct {
	lock *os.File // its holder keeps; "demo -stop" waits for its release
	say  *os.File // a pipe, through which it says that it keeps; its end without a word means failure
}

// errReported is a failure of which the user has been told.
var errReported = errors.New("failed")

// runInBackground starts a keeper and waits until it keeps.
func runInBackground(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hear, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = hear.Close() }()
	child := exec.Command(self, os.Args[1:]...)
	child.Env = append(os.Environ(), keeperVar+"=1")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{say}
	// Away from the terminal, whose Ctrl-C and hang-up are not for the keeper. Until it keeps,
	// it is told when this process is gone.
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the demo in the background: %w", err)
	}
	_ = say.Close()
	stopPassing := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stopPassing()
	if answer, err := io.ReadAll(hear); err == nil && len(answer) > 0 {
		return child.Process.Release()
	}
	_ = child.Wait()
	return errReported
}

// newKeeper takes up the role; it fails if another demo is being kept.
func newKeeper() (*keeper, error) {
	lock, err := openLock()
	if err != nil {
		return nil, err
	}
	k := &keeper{lock: lock, say: os.NewFile(3, "say")}
	syscall.CloseOnExec(int(k.say.Fd())) // not for our children
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.New("another demo is being kept: `make demo-stop` stops it")
	}
	if err := lock.Truncate(0); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(lock, os.Getpid())
	return k, err
}

// keep lets the process in the foreground go, and waits until ctx ends.
func (k *keeper) keep(ctx context.Context, p *processes, log string) error {
	// Nothing more is for the terminal, nor for a pipe whose reader waits for
	// its end.
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(out.Fd()), fd, 0); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return err
	}
	if _, err := k.say.WriteString("kept"); err != nil {
		return err
	}
	_ = k.say.Close()
	for {
		select {
		case <-ctx.Done():
			for _, s := range stopDaemons(p) {
				if s.Err != nil {
					return fmt.Errorf("%s did not stop cleanly: %w", s.Name, s.Err)
				}
			}
			return nil
		case child := <-p.ended:
			_, _ = fmt.Fprintf(os.Stderr, "%s ended: %v\n", child.name, child.err)
		}
	}
}

// stopKept ends the demo that is being kept, and returns when it is gone.
func stopKept() error {
	lock, err := openLock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return errors.New("no demo is being kept")
	}
	text, err := io.ReadAll(lock)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", lock.Name(), err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the demo (process %d): %w", pid, err)
	}
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
}

func openLock() (*os.File, error) {
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "keeper.pid"), os.O_RDWR|os.O_CREATE, fs.FileMode(0o644))
}

// lookAround says where everything is, and how to stop it.
func (s *scenario) lookAround(w io.Writer, config string) {
	management, user := s.resources.managementURL, ""
	if u, err := url.Parse(management); err == nil {
		password, _ := u.User.Password()
		user = u.User.Username() + ", password " + password
		u.User = nil
		management = u.String()
	}
	_, _ = fmt.Fprintf(w, `Everything is left running. To look around:

  export SWH_CONFIG_FILENAME=%[1]s
  %[2]s task-type list
  %[2]s task add load-git --policy oneshot --priority high url=%[3]s
  psql '%[4]s'
  RabbitMQ: %[5]s (user %[6]s), virtual host %[7]s
  Kafka: %[8]s, topic %[9]s.%[10]s
  logs: %[11]s/*.log

To stop it: make demo-stop (or %[12]s -stop)
`, config, s.Scheduler, s.wanted.URL(), s.resources.dsn, management, user, s.resources.name,
		strings.Join(s.resources.kafka, ","), s.resources.topicPrefix, visitStatusTopic, s.dir, os.Args[0])
}
