package ledger_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/migrate"
)

// Most rows of messages that stay in the ledger remain on their pages when their starts are written, with
// no new index entry. That holds for messages in a row on the same pages, too. The test has a server of its
// own: a transaction in any of the server's databases prevents the pruning of pages.
func TestStartsWriteFewIndexEntries(t *testing.T) {
	t.Parallel()
	const messages, sentAtOnce, heardAtOnce = 1000, 250, 50
	dsn := testenv.PostgresServer(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	store := testenv.OpenLocal(t, dsn+"?pool_max_conns=1")
	testenv.Exec(t, store.Pool(), "alter table scheduler_go.work set (autovacuum_enabled = false)")
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, queue, home, since, task_name, args, kwargs, share_group, cost,
			lane_set, lane, lane_name, lanes_left, soft_limit, hard_limit, memory, lister, first, behind, visit_type, url, hosters)
		select gen_random_uuid(), 'swh.loader.git.tasks.UpdateGitRepository', 'swh.loader.git.tasks.UpdateGitRepository', now(), 'swh.loader.git.tasks.UpdateGitRepository',
			'[]', json_build_object('url', url, 'lister_name', 'gitlab', 'lister_instance_name', 'gitlab.example.org'), 'gitlab', 10,
			'load-git', 0, 'express', 2, 60, 90, n, 'gitlab', true, 0, 'git', url, '{gitlab/gitlab.example.org}'
		from (select n, 'https://gitlab.example.org/group/project-' || n || '.git' as url from generate_series(1, $1::int) n) o`, messages)
	ids := testenv.Column[uuid.UUID](t, store.Pool(), "select task_id from scheduler_go.work order by place")
	for range messages / sentAtOnce {
		if err := store.ByPlace(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			next, err := tx.NextOutgoing(ctx, false, sentAtOnce, []string{}, []uuid.UUID{})
			if err != nil {
				return err
			}
			return tx.Confirm(ctx, next)
		}); err != nil {
			t.Fatal(err)
		}
	}
	moved := func() int {
		testenv.Exec(t, store.Pool(), "select pg_stat_force_next_flush()")
		return testenv.Value[int](t, store.Pool(), "select n_tup_upd - n_tup_hot_upd from pg_stat_all_tables where relid = 'scheduler_go.work'::regclass")
	}
	before := moved()
	for first := 0; first < messages; first += heardAtOnce {
		heard := ledger.Subjects{TaskIDs: ids[first : first+heardAtOnce]}
		if err := store.Settle(t.Context(), heard, func(_ []ledger.LockedRun, work []ledger.LockedWork) (s ledger.Settlement) {
			for _, w := range work {
				s.WorkBegun = append(s.WorkBegun, ledger.WorkBegin{TaskID: w.TaskID, Started: 1})
			}
			return s
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := testenv.Value[int](t, store.Pool(), "select count(*) from scheduler_go.work where started is not null"); n != messages {
		t.Errorf("%d of %d messages have started", n, messages)
	}
	if n := moved() - before; n > messages*4/10 {
		t.Errorf("the rows of %d of %d messages that started left their pages", n, messages)
	}
}
