package throwaway

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
)

// StartPgBouncer starts PgBouncer in front of a PostgreSQL, with size connections
// that clients share between transactions. It returns its host and port. stop ends it.
func StartPgBouncer(ctx context.Context, log *slog.Logger, postgres string, size int) (host string, stop func(), err error) {
	return startLocal(log, "PgBouncer", func(l *local) (string, error) { return l.pgbouncer(ctx, postgres, size) })
}

func (l *local) pgbouncer(ctx context.Context, postgres string, size int) (string, error) {
	program, err := findProgram("pgbouncer", "/usr/sbin")
	if err != nil {
		return "", err
	}
	behind, err := url.Parse(postgres)
	if err != nil {
		return "", err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(l.dir, "pgbouncer")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	owner, err := unprivileged(dir)
	if err != nil {
		return "", err
	}
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
`, behind.Hostname(), behind.Port(), behind.User.Username(), ports[0], size)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command(program, file)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = l.environ(), dir, owner
	through := *behind
	through.Host = address(ports[0])
	return through.Host, (&server{local: l, name: "pgbouncer"}).start(ctx, cmd, postgresReady(through.String()))
}
