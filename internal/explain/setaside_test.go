package explain

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// What is set aside is explained with the reason, also where the row itself can't be read.
func TestSetAsideIsExplained(t *testing.T) {
	t.Parallel()
	store := opened(t,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into task (id, type, arguments, next_run, current_interval, status) values
			(1, 'load-git', '[]', now(), '1 day', 'next_run_not_scheduled'), (2, 'load-git', '{"args": "x"}', now(), '1 day', 'next_run_not_scheduled')`,
		`insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update) values
			('00000000-0000-0000-0000-000000000001', 'https://list', 'git', '[1]', true, now(), null),
			('00000000-0000-0000-0000-000000000001', 'https://far', 'git', '{}', true, now(), 'infinity')`,
	)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if _, _, err := tx.ClaimTasks(ctx, ledger.TaskClaim{Type: model.TaskType{Type: "load-git"}, Queue: "swh.git", Now: time.Now(), Groups: []ledger.TaskGroup{{Count: 5}}}); err != nil {
			return err
		}
		_, err := tx.GrabNextVisits(ctx, model.VisitFilter{VisitType: "git", Policy: model.OldestScheduledFirst}, time.Now(), 5, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	x := &Gatherer{Store: store, Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now()}
	task, origin := explanations(t, x, "")
	for reason, got := range map[string][]Explanation{
		"its arguments are a JSON array": task(1), "its args are a JSON string": task(2),
		"its extra_loader_arguments are a JSON array": origin("https://list"), "its last_update is infinite": origin("https://far"),
	} {
		if len(got) != 1 || !strings.HasPrefix(got[0].Summary, "It is rejected since ") || len(got[0].Reasons) == 0 || !strings.Contains(got[0].Reasons[0], reason) || got[0].When == nil {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}
