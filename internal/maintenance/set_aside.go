package maintenance

import (
	"context"
	"log/slog"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// SetAside returns the job that retries tasks and origins that were set aside once they have changed, and logs each
// new one once.
func SetAside(store *db.Store, log *slog.Logger) Job {
	return Job{Name: "set aside", Period: time.Minute, Origins: true, Do: func(ctx context.Context) (string, error) {
		tasks, origins, err := store.NewlySetAside(ctx)
		for _, t := range tasks {
			log.Warn("task set aside: it can't be sent", "task", t.Task, "reason", t.Reason)
		}
		for _, o := range origins {
			log.Warn("origin set aside: it can't be sent", "origin", o.URL, "visit_type", o.VisitType, "reason", o.Reason)
		}
		if err != nil {
			return "", err
		}
		return model.Count(len(tasks), "task", "tasks") + " and " + model.Count(len(origins), "origin", "origins") + " set aside", store.RetrySetAside(ctx)
	}}
}
