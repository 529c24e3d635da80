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

	"swh-scheduler/internal/services"
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
func (s *story) lookAround(w io.Writer) error {
	r := s.resources
	management, user := r.managementURL, ""
	if u, err := url.Parse(management); err == nil {
		password, _ := u.User.Password()
		user = u.User.Username() + ", password " + password
		u.User = nil
		management = u.String()
	}
	_, err := fmt.Fprintf(w, `Everything is left running. To look around:

  export SWH_CONFIG_FILENAME=%s
  %s task add load-git --policy oneshot --priority high url=%s
  psql '%s'
  psql '%s' (the storage)
  RabbitMQ: %s (user %s), virtual host %s
  Kafka: %s, topics %s.*
  forges: %s, %s; packages: %s
  logs: %s/*.log
`, s.config, s.Scheduler, s.world.of(wanted)[0].URL, r.scheduler.dsn, r.storage.dsn, management, user, r.name,
		strings.Join(r.kafka, ","), r.topicPrefix, s.world.forges[large].URL, s.world.forges[small].URL, s.world.packages.URL, s.dir)
	if err == nil {
		err = s.startMonitors(w)
	}
	_, _ = fmt.Fprintf(w, "\nTo stop it: make demo-stop (or %s -stop)\n", os.Args[0])
	return err
}

// startMonitors starts what shows the scheduler in a browser, as far as it is there, and says
// where.
func (s *story) startMonitors(w io.Writer) error {
	ports, err := services.FreePorts(2)
	if err != nil {
		return err
	}
	// A binary without this command shows its general help.
	if help, err := s.processes.run(context.Background(), s.Scheduler, "dashboard", "--help"); err == nil && strings.Contains(help, "--port") {
		_, _ = fmt.Fprintf(w, "  dashboard: http://127.0.0.1:%d/\n", ports[0])
		if err := s.processes.start("dashboard", s.Scheduler, "-C", s.config, "dashboard", "--host", "127.0.0.1", "--port", fmt.Sprint(ports[0])); err != nil {
			return err
		}
	}
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		return nil // it isn't installed
	}
	config, err := s.writeFile("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 5s}\nscrape_configs:\n"+
		"- {job_name: swh-scheduler, static_configs: [{targets: [%s]}]}\n", strings.Join(s.metrics, ", ")))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "  Prometheus: http://127.0.0.1:%d/\n", ports[1])
	return s.processes.start("prometheus", prometheus, "--config.file", config, "--storage.tsdb.path", filepath.Join(s.dir, "prometheus"),
		"--web.listen-address", fmt.Sprintf("127.0.0.1:%d", ports[1]))
}
