package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// All children end with the process that started them, so that a process must stay to keep them. With -keep the demo
// runs itself in the background: this keeper does all the work. The process in the foreground only waits until the
// job is done.

// keeperVar marks the keeper's environment.
const keeperVar = "SWH_DEMO_KEEPER"

// keeper is the state of the process in the background.
type keeper struct {
	until context.Context // ends when the keeper is stopped
	kept  atomic.Bool     // the process in the foreground may end
	lock  *os.File        // locked by the keeper; "demo -stop" waits for its release
	say   *os.File        // a pipe: a message means that the job is done, its end without one that it failed
}

// runInBackground starts a keeper and waits until the job is done.
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
	// Detached from the terminal, whose Ctrl-C and hang-up must not reach the keeper. Its input ends
	// when this process ends.
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := child.StdinPipe(); err != nil {
		return err
	}
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

// newKeeper makes this process the keeper. It returns an error if another demo is kept. Until the job is done, the
// keeper ends with the process in the foreground.
func newKeeper(ctx context.Context) (*keeper, error) {
	ctx, cancel := context.WithCancel(ctx)
	k := &keeper{until: ctx, say: os.NewFile(3, "say")}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if !k.kept.Load() {
			cancel()
		}
	}()
	syscall.CloseOnExec(int(k.say.Fd())) // not for our children
	var err error
	if k.lock, err = lockFile(); err != nil {
		return nil, err
	}
	if unix.FcntlFlock(k.lock.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}) != nil {
		return nil, errors.New("another demo is being kept: `make demo-stop` stops it")
	}
	return k, nil
}

// keep lets the process in the foreground end and waits until the keeper is stopped.
func (k *keeper) keep(s *story) (failed error) {
	// This releases the terminal, or a pipe whose reader waits for its end.
	out, err := os.Create(filepath.Join(s.dir, "demo.log"))
	if err != nil {
		return err
	}
	for _, fd := range []int{1, 2} {
		if err := syscall.Dup3(int(out.Fd()), fd, 0); err != nil {
			return err
		}
	}
	k.kept.Store(true)
	if _, err := k.say.WriteString("kept"); err != nil {
		return err
	}
	_ = k.say.Close()
	<-k.until.Done()
	for name, err := range s.stop() {
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s did not stop cleanly: %v\n", name, err)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// stopKept stops the kept demo, and returns when it has ended.
func stopKept() error {
	file, err := lockFile()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	pid, err := holder(file)
	switch {
	case err != nil:
		return err
	case pid == 0:
		return errors.New("no demo is being kept")
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the demo (process %d): %w", pid, err)
	}
	return unix.FcntlFlock(file.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
}

// holder returns the process that holds the lock; 0 if none does.
func holder(file *os.File) (pid int, err error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock)
	return int(lock.Pid), err
}

func lockFile() (*os.File, error) {
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "keeper.lock"), os.O_RDWR|os.O_CREATE, 0o644)
}
