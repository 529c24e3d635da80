package runner

import (
	"context"
	"time"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/sql"
)

const (
	// graphRounds is how many rounds of the drain of graphs go before a pass: so
	// many released tasks fill the queues, and what has been ready meanwhile need
	// not wait for all of a large fan-out.
	graphRounds = 10
	// mendPeriod is how often waiting tasks are looked for that nothing wakes.
	mendPeriod = 10 * time.Minute
	// othersWait is how long others are given to end their transactions, which
	// drain graphs too or hold the rows of tasks that are to be released.
	othersWait = 100 * time.Millisecond
)

// graphs does what there is to do for graphs of tasks, before a pass claims what
// is ready. It asks for the next pass if there is more.
func (r *Runner) graphs(ctx context.Context) (daemon.Result, error) {
	if now := r.now(); now.Sub(r.mended) >= mendPeriod {
		r.mended = now
		if err := r.Store.MendGraphs(ctx); err != nil { // there may be something to release all the same
			r.Log.Warn("forgotten tasks of graphs not looked for", "error", err)
		}
	}
	var round sql.GraphRound
	for range graphRounds {
		var err error
		if round, err = r.Store.DrainGraphs(ctx, r.now()); err != nil {
			return daemon.Result{}, err
		}
		r.released.Add(float64(round.Released))
		r.neverRun.Add(float64(round.Failed))
		if round.Released+round.Failed > 0 {
			r.Log.Info("tasks of graphs", "released", round.Released, "never_run", round.Failed)
		}
		if !round.More {
			break
		}
	}
	result := daemon.Result{Again: round.More}
	if round.Waits {
		result.Next = min(r.Period, othersWait)
	}
	return result, nil
}
