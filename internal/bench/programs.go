package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// Program is the command of a side, and its kind of database.
type Program struct {
	Side     string
	Database func(testing.TB) string // creates a database and returns its URL

	// Command returns the command with a configuration file and arguments, of which the first
	// is the name of a subcommand, such as start-runner.
	Command func(config string, args ...string) *exec.Cmd

	// serve, if not nil, starts the RPC server of a database, whose URL replaces the database.
	serve func(dsn string) (url string, stop func())
}

// Config writes a configuration with a database, a broker and more lines. It starts the RPC server, if the side has
// one; stop ends it.
func (p Program) Config(b *testing.B, dsn, broker string, more ...string) (path string, stop func()) {
	b.Helper()
	if p.serve == nil {
		return ConfigFile(b, dsn, broker, more...), func() {}
	}
	url, stop := p.serve(dsn)
	return configFile(b, fmt.Sprintf("{cls: remote, url: %q}", url+"/"), broker, more...), stop
}

// Programs returns our program, which it builds, the Python scheduler, and the Python scheduler on a database with
// our triggers. If SWH_BENCH_BEFORE is the path of another build of our program, it returns that one, too, on its own
// schema.
func Programs(b *testing.B) []Program {
	b.Helper()
	ours := build(b, "swh-scheduler/cmd/swh-scheduler")
	swh := testenv.Swh(b)
	with := func(program ...string) func(string, ...string) *exec.Cmd {
		return func(config string, args ...string) *exec.Cmd {
			cmd := exec.Command(program[0], append(program[1:], args...)...)
			cmd.Env = append(os.Environ(), "SWH_CONFIG_FILENAME="+config)
			return cmd
		}
	}
	peer := with(swh, "scheduler")
	programs := []Program{
		{Ours, testenv.Database, with(ours), nil},
		{Peer, testenv.PythonDatabase, peer, nil},
		{PeerBeside, testenv.Database, peer, nil},
	}
	if path := os.Getenv("SWH_BENCH_BEFORE"); path != "" {
		before := with(path)
		programs = append(programs, Program{Before, func(t testing.TB) string {
			dsn := testenv.PythonDatabase(t)
			if out, err := before(ConfigFile(b, dsn, ""), "migrate").CombinedOutput(); err != nil {
				t.Fatalf("migrate by %s: %v\n%s", path, err, out)
			}
			return dsn
		}, before, nil})
	}
	return programs
}

// ByServers returns our program and the Python scheduler, from the results of Programs, with RPC servers between them
// and the database.
func ByServers(b *testing.B, programs []Program) []Program {
	b.Helper()
	door, peer := programs[0], programs[1]
	ours := door.Command
	door.Side, peer.Side = Door, PeerRemote
	door.serve = func(dsn string) (url string, stop func()) {
		testenv.Migrate(b, dsn, migrate.Options{Door: migrate.DoorOpened})
		url, end := Serve(b, func(address string) *exec.Cmd {
			host, port, _ := strings.Cut(address, ":")
			return ours(ConfigFile(b, dsn, ""), "rpc-serve", "--host", host, "--port", port)
		})
		stop = sync.OnceFunc(func() {
			end()
			if _, err := migrate.Run(context.Background(), dsn, migrate.Options{Door: migrate.DoorClosed}); err != nil { // roles belong to the whole server
				b.Error(err)
			}
		})
		b.Cleanup(stop)
		return url, stop
	}
	peer.serve = func(dsn string) (url string, stop func()) {
		return Serve(b, func(address string) *exec.Cmd { return Gunicorn(b, dsn, address) })
	}
	return []Program{door, peer}
}

// build builds a program of this module as `make build` does, and returns its path.
func build(b *testing.B, program string) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), filepath.Base(program))
	if err := testenv.BuildAsShipped(program, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// Gunicorn returns the command for the Python scheduler's RPC server as it is deployed, on an address.
func Gunicorn(b *testing.B, dsn, address string) *exec.Cmd {
	b.Helper()
	config := ConfigFile(b, dsn, "")
	cmd := exec.Command(testenv.Python(b), "-W", "ignore", "-m", "gunicorn", "--workers", "2", "--bind", address,
		"--log-level", "critical", "swh.scheduler.api.server:make_app_from_configfile()")
	cmd.Env = append(os.Environ(), "SWH_CONFIG_FILENAME="+config, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// ConfigFile writes a configuration for both sides, with more lines, and returns its path.
func ConfigFile(b *testing.B, dsn, broker string, more ...string) string {
	b.Helper()
	return configFile(b, fmt.Sprintf("{cls: postgresql, db: %q}", dsn), broker, more...)
}

func configFile(b *testing.B, scheduler, broker string, more ...string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "scheduler.yml")
	text := fmt.Sprintf("scheduler: %s\ncelery: {task_broker: %q}\n%s\n", scheduler, broker, strings.Join(more, "\n"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// Exec executes statements on a database, each in a transaction of its own.
func Exec(b *testing.B, dsn string, statements ...string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatalf("%v\n%s", err, statement)
		}
	}
}

// Drain drains all changes of candidates.
func Drain(b *testing.B, store *db.Store) {
	b.Helper()
	for more := true; more; {
		kept, err := store.MaintainCandidates(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		more = kept.More
	}
}

// endsWithUs makes the kernel kill a command when the thread that started it ends.
var endsWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// Start starts a command. stop kills it, as does the end of the benchmark, also one that is interrupted.
func Start(b *testing.B, cmd *exec.Cmd) (stop func()) {
	b.Helper()
	cmd.SysProcAttr = endsWithUs
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed by us; a second call returns at once
	}
	b.Cleanup(stop)
	return stop
}

// Serve starts an HTTP server by the command for a free address. It returns the URL when the server answers.
func Serve(b *testing.B, command func(address string) *exec.Cmd) (url string, stop func()) {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	stop = Start(b, command(address))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if response, err := http.Get("http://" + address + "/"); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			return "http://" + address, stop
		}
		if time.Now().After(deadline) {
			b.Fatal("the server doesn't answer")
		}
	}
}

// Run runs a command to its end. It returns its seconds, its seconds of processor time, and its peak of resident
// memory in MiB, which it reads every 10 ms. The system's final peak includes the memory of this process at the time
// of the fork.
func Run(b *testing.B, cmd *exec.Cmd) (seconds, processor, memory float64) {
	b.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = endsWithUs
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.Fatalf("%v\n%s", err, &output)
			}
			return time.Since(began).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), memory
		case <-tick.C:
			if now, err := residentMemory(cmd, "VmHWM"); err == nil { // it may have ended
				memory = now
			}
		}
	}
}

// Memory returns the resident memory of a running command and its peak, in MiB.
func Memory(b *testing.B, cmd *exec.Cmd) (now, peak float64) {
	b.Helper()
	now, err := residentMemory(cmd, "VmRSS")
	if err == nil {
		peak, err = residentMemory(cmd, "VmHWM")
	}
	if err != nil {
		b.Fatal(err)
	}
	return now, peak
}

func residentMemory(cmd *exec.Cmd, field string) (mib float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(status), field+":")
	_, err = fmt.Sscan(line, &mib)
	return mib / 1024, err
}
