package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

var noArgs = json.RawMessage("[]")

// EnqueueVisits writes a message for each origin to the outbox, in their order:
// the loader task named taskName, for the given queue. It belongs into the
// transaction that marks the origins as scheduled.
func EnqueueVisits(ctx context.Context, tx *sql.Tx, queue, taskName string, origins []scheduler.ListedOrigin) error {
	_, err := enqueueVisits(ctx, tx, queue, taskName, origins)
	return err
}

// SharedVisit is an origin of a group, and what its visit is expected to take, in
// seconds.
type SharedVisit struct {
	Origin scheduler.ListedOrigin
	Group  string
	Cost   float64
}

// EnqueueSharedVisits does what EnqueueVisits does, for a queue that groups share:
// the visits are noted as underway too, as claimed at now.
func EnqueueSharedVisits(ctx context.Context, tx *sql.Tx, queue, taskName string, visits []SharedVisit, now time.Time) error {
	origins := make([]scheduler.ListedOrigin, len(visits))
	for i, v := range visits {
		origins[i] = v.Origin
	}
	messages, err := enqueueVisits(ctx, tx, queue, taskName, origins)
	if err != nil {
		return err
	}
	underway := make([]sql.InFlight, len(visits))
	for i, v := range visits {
		underway[i] = sql.InFlight{TaskID: messages[i].TaskID, Queue: queue, Group: v.Group, Cost: v.Cost, Claimed: now}
	}
	return tx.RecordInFlight(ctx, underway)
}

// enqueueVisits returns the messages it wrote, one for each origin, in their order.
func enqueueVisits(ctx context.Context, tx *sql.Tx, queue, taskName string, origins []scheduler.ListedOrigin) ([]sql.OutboxRow, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	kwargs, err := LoaderKwargs(ctx, tx, origins)
	if err != nil {
		return nil, err
	}
	messages := make([]sql.OutboxRow, len(origins))
	for i := range origins {
		messages[i] = sql.OutboxRow{Queue: queue, TaskID: uuid.New(), TaskName: taskName, Args: noArgs, Kwargs: kwargs[i]}
	}
	return messages, tx.EnqueueMessages(ctx, messages)
}

// Listers finds listers.
type Listers interface {
	ListersByID(ctx context.Context, ids []uuid.UUID) ([]scheduler.Lister, error)
}

// LoaderKwargs are the keyword arguments of the loader task of each origin, a
// JSON object with its keys in the peer's order.
func LoaderKwargs(ctx context.Context, from Listers, origins []scheduler.ListedOrigin) ([]json.RawMessage, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	found, err := from.ListersByID(ctx, listerIDs(origins))
	if err != nil {
		return nil, err
	}
	listers := make(map[uuid.UUID]scheduler.Lister, len(found))
	for _, l := range found {
		listers[l.ID] = l
	}
	all := make([]json.RawMessage, len(origins))
	for i, o := range origins {
		if all[i], err = loaderKwargs(o, listers[o.ListerID]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func listerIDs(origins []scheduler.ListedOrigin) []uuid.UUID {
	seen := make(map[uuid.UUID]bool)
	var ids []uuid.UUID
	for _, o := range origins {
		if !seen[o.ListerID] {
			seen[o.ListerID] = true
			ids = append(ids, o.ListerID)
		}
	}
	return ids
}

// loaderKwargs are the keyword arguments of a loader's task: the origin's URL,
// its lister, and the lister's extra arguments, which win (the peer's
// create_origin_task). Values keep the form they have in the database.
func loaderKwargs(o scheduler.ListedOrigin, l scheduler.Lister) (json.RawMessage, error) {
	var kwargs Kwargs
	kwargs.set("url", o.URL)
	kwargs.set("lister_name", l.Name)
	if l.InstanceName == "" {
		kwargs.set("lister_instance_name", nil)
	} else {
		kwargs.set("lister_instance_name", l.InstanceName)
	}
	if err := kwargs.Merge(o.ExtraLoaderArguments); err != nil {
		return nil, fmt.Errorf("origin %q (%s): extra_loader_arguments: %w", o.URL, o.VisitType, err)
	}
	return kwargs.JSON(), nil
}
