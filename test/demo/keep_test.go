package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// roleVar makes this program a demo that only keeps, for these tests: "keeps", or "begins" if its job never ends.
const roleVar = "TEST_KEEPER"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := playRole(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playRole(role string) error {
	ctx, cancel := signalContext()
	defer cancel()
	if os.Getenv(keeperVar) == "" {
		return runInBackground(ctx)
	}
	k, err := newKeeper(ctx)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(k) // it has the lock
	dir, err := stateDir()
	if err != nil {
		return err
	}
	return runProgram(k.until, func(p *program) {
		s := &story{program: p, dir: dir, children: map[string]*testenv.Child{}}
		for _, d := range daemons {
			s.start(d.name, "sh", "-c", "trap 'exit 0' TERM; echo it began; while :; do sleep 1; done")
		}
		if role == "keeps" {
			p.must(k.keep(s))
		} else {
			<-k.until.Done()
		}
	})
}

// startRole starts it, and returns when it has daemons. Its files are the test's own.
func startRole(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	t.Setenv("SWH_SCHEDULER_CACHE", t.TempDir())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stopKept() // an error if nothing is kept
	})
	testenv.Becomes(t, "daemons that began", len(daemons), func() (n int) {
		logs, _ := filepath.Glob(filepath.Join(os.Getenv("SWH_SCHEDULER_CACHE"), "demo", "*.log"))
		for _, log := range logs {
			n += strings.Count(string(testenv.Read(t, log)), "it began")
		}
		return n
	})
	return cmd
}

// A kept demo outlives the process in the foreground, until it is stopped.
func TestKeptUntilStopped(t *testing.T) {
	cmd := startRole(t, "keeps")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process in the foreground: %v", err)
	}
	time.Sleep(time.Second) // it might end with that
	if err := stopKept(); err != nil {
		t.Error(err)
	}
	if err := stopKept(); err == nil {
		t.Error("it was stopped, and is kept")
	}
}

// Before its job is done, a keeper ends with the process in the foreground.
func TestKeeperEndsWithTheForeground(t *testing.T) {
	cmd := startRole(t, "begins")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	lock, err := lockFile()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	testenv.Becomes(t, "the keeper's number", 0, func() int {
		pid, err := holder(lock)
		if err != nil {
			t.Fatal(err)
		}
		return pid
	})
}
