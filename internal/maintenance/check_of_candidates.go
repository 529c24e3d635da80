package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// CheckOfCandidates returns the job that compares a part of the candidates with the tables each minute, and notes
// origins whose candidates are wrong or missing.
func CheckOfCandidates(store *db.Store, log *slog.Logger, reg prometheus.Registerer) Job {
	repaired := promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "swh_scheduler_candidates_repaired_total", Help: "Origins whose wrong or missing candidates a check repaired.",
	})
	return Job{Name: "check of candidates", Period: time.Minute, Do: func(ctx context.Context) (string, error) {
		n, err := store.CheckCandidates(ctx, checkTime)
		repaired.Add(float64(n))
		if n == 0 {
			return "", err
		}
		log.Warn("wrong candidates of origins repaired: triggers missed changes", "origins", n)
		return model.Count(n, "origin", "origins") + " repaired", err
	}}
}

// checkTime bounds a run of CheckOfCandidates.
const checkTime = 20 * time.Second
