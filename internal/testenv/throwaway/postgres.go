package throwaway

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a server, alone or of a pair.
type PostgresServer struct {
	URL string // of the superuser, database postgres

	server
	bin    string // directory of the programs
	port   int
	root   string // of its data
	data   string
	owner  *syscall.SysProcAttr
	copies int      // of the data; also part of the name of its directory
	disks  [2]*disk // of its data and of its WAL; nil: those of the machine
}

func (l *local) newPostgres(name string) (*PostgresServer, error) {
	bin, err := postgresPrograms(l.dir)
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	return &PostgresServer{
		URL:    fmt.Sprintf("postgresql://postgres@%s/postgres", address(ports[0])),
		server: server{local: l, name: name}, bin: bin, port: ports[0], root: l.dir,
	}, nil
}

// create creates the server's data by running a program on a new directory.
func (s *PostgresServer) create(ctx context.Context, program string, args ...string) error {
	s.copies++
	s.data = filepath.Join(s.root, fmt.Sprintf("%s-%d", s.name, s.copies))
	if err := os.Mkdir(s.data, 0o700); err != nil {
		return err
	}
	var err error
	if s.owner, err = unprivileged(s.data); err != nil {
		return err
	}
	if s.disks[1] != nil {
		wal := filepath.Join(s.disks[1].dir, filepath.Base(s.data))
		if err := os.Mkdir(wal, 0o700); err != nil {
			return err
		}
		if _, err = unprivileged(wal); err != nil {
			return err
		}
		args = append(args, "--waldir", wal)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), append(args, "--pgdata", s.data, "--no-sync")...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.environ(), s.data, s.owner
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

func (s *PostgresServer) init(ctx context.Context) error {
	args := []string{"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8"}
	if s.disks[1] != nil {
		args = append(args, "--wal-segsize", "1") // a full disk is noticed at the end of a segment
	}
	return s.create(ctx, "initdb", args...)
}

// remove removes its data.
func (s *PostgresServer) remove() {
	_ = os.RemoveAll(s.data)
	if s.disks[1] != nil {
		_ = os.RemoveAll(filepath.Join(s.disks[1].dir, filepath.Base(s.data)))
	}
}

// start starts the server on the data that create made, and returns when it is ready.
func (s *PostgresServer) start(ctx context.Context, settings ...string) error {
	args := append([]string{"-D", s.data}, postgresSettings(append(settings,
		fmt.Sprintf("port=%d", s.port), "listen_addresses=127.0.0.1", "unix_socket_directories=")...)...)
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	// A copy, as s.owner belongs to the command of create.
	owner := *s.owner
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.environ(), s.data, &owner
	return s.server.start(ctx, cmd, postgresReady(s.URL))
}

// postgresSettings returns the arguments of a test server. It allows the many connections of
// packages that are tested in parallel and, unless DurableVar is set, isn't durable.
func postgresSettings(more ...string) []string {
	if os.Getenv(DurableVar) == "" {
		more = append([]string{"fsync=off", "full_page_writes=off"}, more...)
	}
	var args []string
	for _, setting := range append(more, "max_connections=400", "max_locks_per_transaction=256") {
		args = append(args, "-c", setting)
	}
	return args
}

// StartPostgres starts a PostgreSQL installed on this machine with further settings
// ("name=value"), for tests that can't share a server with others. It returns the
// URL of its superuser. stop ends it.
func StartPostgres(ctx context.Context, log *slog.Logger, settings ...string) (url string, stop func(), err error) {
	return startLocal(log, "PostgreSQL", func(l *local) (string, error) { return l.postgres(ctx, settings...) })
}

func (l *local) startPostgres(ctx context.Context) (string, error) { return l.postgres(ctx) }

func (l *local) postgres(ctx context.Context, settings ...string) (string, error) {
	s, err := l.newPostgres("postgresql")
	if err != nil {
		return "", err
	}
	if os.Getenv(DurableVar) == "" {
		s.root = s.fast
	}
	if err := s.init(ctx); err != nil {
		return "", err
	}
	return s.URL, s.start(ctx, settings...)
}

// exec runs a statement as the superuser.
func (s *PostgresServer) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// PostgresPair is a primary with a standby that confirms every commit (synchronous streaming
// replication). The data survives a crash of a server, but not of the machine.
type PostgresPair struct {
	Servers [2]*PostgresServer

	primary int
	local   *local
	diskMiB int
}

// StartPostgresPair starts a pair of installed servers, on this machine. With diskMiB, each has two disks
// of that size in memory, for its data and its WAL, which FillDisk fills; only root may do that. Stop must be called.
func StartPostgresPair(ctx context.Context, log *slog.Logger, diskMiB int) (*PostgresPair, error) {
	l, err := newLocal(log)
	if err != nil {
		return nil, err
	}
	p := &PostgresPair{local: l, diskMiB: diskMiB}
	if err := p.start(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start a PostgreSQL pair: %w", err)
	}
	return p, nil
}

func (p *PostgresPair) start(ctx context.Context) (err error) {
	for i := range p.Servers {
		if p.Servers[i], err = p.local.newPostgres(fmt.Sprint("postgresql-", i+1)); err != nil {
			return err
		}
		if p.diskMiB == 0 {
			continue
		}
		s := p.Servers[i]
		for n := range s.disks {
			if s.disks[n], err = p.local.mountDisk(fmt.Sprintf("%s-%d", s.name, n+1), p.diskMiB); err != nil {
				return err
			}
		}
		s.root = s.disks[0].dir
	}
	if err := p.Primary().init(ctx); err != nil {
		return err
	}
	if err := p.Primary().start(ctx, pairSettings...); err != nil {
		return err
	}
	return p.Rejoin(ctx)
}

// pairSettings keep the WAL that a standby may still have to read.
var pairSettings = []string{"wal_keep_size=256MB", "hot_standby=on"}

// Primary returns the server that accepts writes, or did last.
func (p *PostgresPair) Primary() *PostgresServer { return p.Servers[p.primary] }

// Standby returns the other server.
func (p *PostgresPair) Standby() *PostgresServer { return p.Servers[1-p.primary] }

// Promote makes the standby the primary, which then doesn't wait for a standby. The old primary must be dead.
func (p *PostgresPair) Promote(ctx context.Context) error {
	err := p.Standby().exec(ctx, "select pg_promote(true, 60)", "alter system reset synchronous_standby_names", "select pg_reload_conf()")
	if err == nil {
		p.primary = 1 - p.primary
	}
	return err
}

// Rejoin makes the dead server a standby, from a new copy of the primary's data, and
// returns when the primary waits for its confirmations.
func (p *PostgresPair) Rejoin(ctx context.Context) error {
	standby, primary := p.Standby(), p.Primary()
	if standby.data != "" {
		standby.remove()
	}
	if err := standby.create(ctx, "pg_basebackup", "--dbname", primary.URL, "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast"); err != nil {
		return err
	}
	if err := standby.start(ctx, pairSettings...); err != nil {
		return err
	}
	if err := primary.exec(ctx, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"); err != nil {
		return err
	}
	return waitReady(ctx, standby.process.died, func(ctx context.Context) error {
		// The statement divides by zero until the standby is synchronous.
		return primary.exec(ctx, "select 1 / count(*) from pg_stat_replication where sync_state = 'sync'")
	})
}

// FillDisk fills the disk of the primary's data, or of its WAL.
func (p *PostgresPair) FillDisk(wal bool) error {
	if wal {
		return p.Primary().disks[1].fill()
	}
	return p.Primary().disks[0].fill()
}

// FreeDisk makes room on the primary's disks, and starts it if it has died.
func (p *PostgresPair) FreeDisk(ctx context.Context) (died bool, err error) {
	s := p.Primary()
	for _, d := range s.disks {
		if err := d.free(); err != nil {
			return false, err
		}
	}
	ready := postgresReady(s.URL)
	for {
		if err := waitReady(ctx, s.process.died, ready); err == nil || ctx.Err() != nil {
			return died, err
		}
		died = true
		_ = os.Remove(filepath.Join(s.data, "postmaster.pid"))
		if err := s.start(ctx, pairSettings...); err != nil {
			return died, err
		}
	}
}

// Stop ends the servers and removes their data.
func (p *PostgresPair) Stop() {
	for _, s := range p.Servers {
		if s != nil && s.process != nil {
			_ = s.Resume() // the reaper doesn't reach stopped processes
		}
	}
	p.local.stop()
}
