package testenv

import (
	"context"
	"log/slog"
	"testing"

	"swh-scheduler/internal/testenv/throwaway"
)

// DatabasePair is a PostgreSQL of the test: a primary and a synchronous standby.
type DatabasePair struct {
	t    testing.TB
	pair *throwaway.PostgresPair
}

// PostgresPair starts the installed servers, until the test ends. It takes some five seconds.
func PostgresPair(t testing.TB) *DatabasePair {
	t.Helper()
	return postgresPair(t, 0)
}

// PostgresPairOnDisks starts servers with small disks, which FillDisk fills. Only root may do that.
func PostgresPairOnDisks(t testing.TB, mib int) *DatabasePair {
	t.Helper()
	return postgresPair(t, mib)
}

func postgresPair(t testing.TB, diskMiB int) *DatabasePair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*setupTimeout)
	defer cancel()
	pair, err := throwaway.StartPostgresPair(ctx, slog.New(slog.DiscardHandler), diskMiB)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(pair.Stop)
	return &DatabasePair{t: t, pair: pair}
}

// DSN names both servers, of which clients choose the primary. ways, if given, are host:port of proxies to the first
// and the second.
func (p *DatabasePair) DSN(ways ...string) string {
	hosts := p.Hosts()
	if len(ways) > 0 {
		hosts = ways
	}
	return "postgresql://postgres@" + hosts[0] + "," + hosts[1] + "/postgres?target_session_attrs=read-write&connect_timeout=5"
}

// Hosts returns host:port of the servers.
func (p *DatabasePair) Hosts() []string {
	var hosts []string
	for _, s := range p.pair.Servers {
		hosts = append(hosts, Host(p.t, s.URL))
	}
	return hosts
}

// Kill ends the primary like a power cut, and returns when it has ended.
func (p *DatabasePair) Kill() { p.check(p.pair.Primary().Kill()) }

// Stop stops the primary (SIGSTOP) with its connections open, until the returned function is called. Its kernel
// continues to acknowledge data.
func (p *DatabasePair) Stop() (resume func()) {
	p.t.Helper()
	primary := p.pair.Primary()
	p.check(primary.Pause())
	return func() { p.check(primary.Resume()) }
}

// Promote makes the standby the primary, after Kill or Stop, and returns when it accepts writes.
func (p *DatabasePair) Promote() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	p.check(p.pair.Promote(ctx))
}

// Rejoin makes the killed server the standby, and returns when commits wait for it.
func (p *DatabasePair) Rejoin() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*setupTimeout)
	defer cancel()
	p.check(p.pair.Rejoin(ctx))
}

// FillDisk fills the disk of the primary's data, or of its WAL.
func (p *DatabasePair) FillDisk(wal bool) { p.check(p.pair.FillDisk(wal)) }

// FreeDisk makes room on the primary's disks, starts it if it has died, and returns when it serves.
func (p *DatabasePair) FreeDisk() (died bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	died, err := p.pair.FreeDisk(ctx)
	p.check(err)
	return died
}

func (p *DatabasePair) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("testenv: %v", err)
	}
}
