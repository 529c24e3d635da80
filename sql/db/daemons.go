package db

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Daemon is a process that is known to run.
type Daemon struct {
	ID      uuid.UUID   `json:"id"`   // of the process
	Name    string      `json:"name"` // its command
	Version string      `json:"version"`
	Host    string      `json:"host"`
	Started time.Time   `json:"started"`
	Seen    time.Time   `json:"seen"`
	State   DaemonState `json:"state"`
}

// DaemonState is how a daemon is, as it last said.
type DaemonState struct {
	Waiting map[string]float64   `json:"waiting"`           // seconds for which a service has been waited for
	Overdue map[string]float64   `json:"overdue"`           // seconds for which a loop's round is overdue
	Last    map[string]time.Time `json:"last"`              // the last good round of each loop
	Workers map[string]Worker    `json:"workers,omitempty"` // those that a listener hears, by name
	Open    string               `json:"open,omitempty"`    // where an RPC server lets everybody in, beyond loopback, and its file doesn't say so; "" if it doesn't
}

// Worker is a Celery worker, as one listener hears it.
type Worker struct {
	Heard  time.Time `json:"heard"`
	Active int       `json:"active"` // tasks in hand, by its last heartbeat
	Ended  int       `json:"ended"`  // runs that ended in the last five whole minutes
	Failed int       `json:"failed"` // of these
}

// RecordDaemon records that a daemon runs.
func (a MonitorStore) RecordDaemon(ctx context.Context, d Daemon) error {
	state, err := json.Marshal(d.State)
	if err != nil {
		return err
	}
	err = a.q.SeeDaemon(ctx, queries.SeeDaemonParams{ID: d.ID, Name: d.Name, Version: d.Version, Host: d.Host, Started: d.Started, State: state})
	return stmt.Failed(err, "record that this daemon runs")
}

// RemoveDaemon records that a daemon runs no more.
func (a MonitorStore) RemoveDaemon(ctx context.Context, id uuid.UUID) error {
	return stmt.Failed(a.q.RemoveDaemon(ctx, id), "record that this daemon stops")
}

// Daemons lists up to limit daemons, those seen last first. It includes those that ended in the last
// day without RemoveDaemon.
func (a MonitorStore) Daemons(ctx context.Context, limit int) ([]Daemon, error) {
	rows, err := a.q.Daemons(ctx, int32(limit))
	return stmt.List(rows, stmt.Failed(err, "list daemons"), func(r queries.SchedulerGoDaemon) Daemon {
		d := Daemon{ID: r.ID, Name: r.Name, Version: r.Version, Host: r.Host, Started: r.Started, Seen: r.Seen}
		_ = json.Unmarshal(r.State, &d.State) // another version may say other things
		return d
	})
}
