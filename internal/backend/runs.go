package backend

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/settle"
	"swh-scheduler/sql/db"
)

// Runs keeps the progress of runs at an RPC server, with a call for each event, as the Python
// listener does. An event whose call was not answered is told a second time.
type Runs struct {
	server *rpc.Client
	log    *slog.Logger
	told   map[toldKey]bool // of a batch that failed, and comes again
}

type toldKey struct {
	backendID string
	heard     time.Time
	end       bool
}

func keyOf(o settle.Outcome) toldKey { return toldKey{o.BackendID, o.Heard, o.End != nil} }

func NewRuns(server *rpc.Client, log *slog.Logger) *Runs {
	return &Runs{server, log, make(map[toldKey]bool)}
}

// Now returns this host's time.
func (*Runs) Now() time.Time { return time.Now() }

// ApplyOutcomes tells the server of starts and ends, in their order. It is called by one
// goroutine at a time.
func (r *Runs) ApplyOutcomes(ctx context.Context, outcomes []settle.Outcome) error {
	for _, o := range outcomes {
		key := keyOf(o)
		if r.told[key] {
			continue
		}
		if err := r.apply(ctx, o); err != nil {
			return err
		}
		r.told[key] = true
	}
	for _, o := range outcomes {
		delete(r.told, keyOf(o))
	}
	return nil
}

func (r *Runs) apply(ctx context.Context, o settle.Outcome) error {
	switch {
	case o.Start != nil:
		metadata, _ := json.Marshal(map[string]*string{"worker": o.Start.Worker})
		return refused(r.server.StartTaskRun(ctx, o.BackendID, metadata, o.Heard))
	case o.End != nil:
		metadata := json.RawMessage("{}")
		if o.End.Error != nil {
			metadata, _ = json.Marshal(map[string]string{"error": *o.End.Error})
		}
		return refused(r.server.EndTaskRun(ctx, o.BackendID, o.End.Status, metadata, o.Heard))
	}
	return nil // a runtime, which only a database uses
}

// RejectEvents logs the events, as the server has no place for them.
func (r *Runs) RejectEvents(_ context.Context, events []db.RejectedEvent) error {
	for _, e := range events {
		r.log.Warn("an event is set aside", "task_id", e.BackendID, "reason", e.Reason, "event", e.Event)
	}
	return nil
}
