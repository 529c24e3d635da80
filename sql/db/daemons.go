package db

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// Daemon is a process that has recorded itself.
type Daemon struct {
	ID         uuid.UUID   `json:"id"`   // one a process
	Name       string      `json:"name"` // its command
	Version    string      `json:"version"`
	Host       string      `json:"host"`
	Started    time.Time   `json:"started"`
	LastReport time.Time   `json:"last_report"`
	State      DaemonState `json:"state"`
}

// DaemonState is the state that a daemon last recorded.
type DaemonState struct {
	Waiting map[string]float64   `json:"waiting"`           // seconds of waiting, by service
	Overdue map[string]float64   `json:"overdue"`           // seconds by which a loop's round is overdue
	Last    map[string]time.Time `json:"last"`              // the last successful round, by loop
	Workers map[string]Worker    `json:"workers,omitempty"` // by name, of a listener
	Open    string               `json:"open,omitempty"`    // the address, beyond loopback, on which an RPC server admits everybody without a setting for it; else ""
	// Restriction is the task types to which a runner is restricted; nil: it sends all.
	Restriction *model.Restriction `json:"restriction,omitempty"`
}

// Worker is the state of a Celery worker by the events that one listener received.
type Worker struct {
	LastEvent time.Time `json:"last_event"`
	Active    int       `json:"active"` // tasks it executes, by its last heartbeat
	Ended     int       `json:"ended"`  // runs that ended in the last five whole minutes
	Failed    int       `json:"failed"` // those that failed
}

// RecordDaemon records a daemon and its state.
func (a MonitorStore) RecordDaemon(ctx context.Context, d Daemon) error {
	state, err := json.Marshal(d.State)
	if err != nil {
		return err
	}
	err = a.q.WriteDaemon(ctx, queries.WriteDaemonParams{ID: d.ID, Name: d.Name, Version: d.Version, Host: d.Host, Started: d.Started, State: state})
	return stmt.Failed(err, "record that this daemon runs")
}

// RemoveDaemon deletes the record of a daemon that ends.
func (a MonitorStore) RemoveDaemon(ctx context.Context, id uuid.UUID) error {
	return stmt.Failed(a.q.RemoveDaemon(ctx, id), "record that this daemon stops")
}

// Restrictions returns the restrictions of up to 100 runners with a name that reported in the last five minutes; empty
// ones for runners without.
func (a MonitorStore) Restrictions(ctx context.Context, name string) ([]model.Restriction, error) {
	rows, err := a.q.Restrictions(ctx, name)
	if err != nil {
		return nil, stmt.Failed(err, "read which task types runners send")
	}
	all := make([]model.Restriction, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal([]byte(row), &all[i]); err != nil {
			return nil, stmt.Failed(err, "read which task types a runner sends")
		}
	}
	return all, nil
}

// Daemons lists up to limit daemons, those with the newest record first. It includes daemons that ended in
// the last day without RemoveDaemon.
func (a MonitorStore) Daemons(ctx context.Context, limit int) ([]Daemon, error) {
	rows, err := a.q.Daemons(ctx, int32(limit))
	return stmt.List(rows, stmt.Failed(err, "list daemons"), func(r queries.SchedulerGoDaemon) Daemon {
		d := Daemon{ID: r.ID, Name: r.Name, Version: r.Version, Host: r.Host, Started: r.Started, LastReport: r.Seen}
		_ = json.Unmarshal(r.State, &d.State) // a daemon of another version may record other fields
		return d
	})
}
