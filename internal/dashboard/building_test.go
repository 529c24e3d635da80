package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/migrate"
)

// While candidates are built, they have no index. Pages don't scan them, and say what is unknown for that reason.
func TestPagesWhileCandidatesAreBuilt(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.Broker = broker{} }, archiveOfListers...)
	s.config.Shares = map[string]model.Shares{"load-git": {By: model.ShareByListerInstance, Default: 1, HalfLife: time.Hour}}
	testenv.Migrate(t, s.dsn, migrate.Options{Shares: s.config.Shares})
	s.exec("update scheduler_go.candidate_build set phase = 'empty'")
	var size bulk.BatchSize
	for range 2 { // it empties the table, and copies some rows
		if _, err := candidates.BuildStep(t.Context(), s.store.Pool(), &size); err != nil {
			t.Fatal(err)
		}
	}
	if testenv.Value[int](t, s.store.Pool(), "select count(*) from scheduler_go.candidates, scheduler_go.candidate_build where phase <> 'ready'") == 0 {
		t.Fatal("no candidate is copied")
	}
	s.exec("analyze scheduler_go.candidates")
	read := func() int {
		testenv.Becomes(t, "other sessions", 0, func() int {
			s.store.Pool().Reset()
			return testenv.Value[int](t, s.store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'")
		})
		return testenv.Value[int](t, s.store.Pool(), "select seq_tup_read from pg_stat_user_tables where relid = 'scheduler_go.candidates'::regclass")
	}
	before := read()
	paths := []string{"/queue?name=swh.git", "/types/load-git", "/origin?url=" + url.QueryEscape("https://forge7.example.org/7")}
	for _, p := range pages {
		if !strings.Contains(p.Path, "{") && p.Path != queuePage.Path {
			paths = append(paths, p.Path)
		}
	}
	for _, path := range paths {
		s.forget()
		if answer, body := s.ask(http.MethodGet, path, nil); answer.StatusCode != http.StatusOK && path != originPage.Path {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
		if n := read(); n > before {
			t.Errorf("%s reads %d candidates", path, n-before)
			before = n
		}
	}
	const unknown = "Candidates are being built: origins don&#39;t count as waiting"
	s.has("/queue?name=swh.git", unknown)
	s.has("/queues", unknown)
	s.has("/", "Candidates are built to ")
	s.has(paths[2], "as candidates are being built")
}

// archiveOfListers are 20 listers with 2,000 origins each.
var archiveOfListers = []string{
	"insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', 'swh.git', 100)",
	"insert into listers (id, name, instance_name, current_state, updated) select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'lister', 'instance-' || n, '{}', now() from generate_series(1, 20) n",
	`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-0000-0000-' || lpad((1 + n % 20)::text, 12, '0'))::uuid, 'https://forge' || n % 97 || '.example.org/' || n, 'git', '{}', true, now(), now() from generate_series(1, 40000) n`,
}

// A page waits once for a part whose reading takes long, even if it shows the part three times.
func TestPagesWaitOnceForAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := background[int]{log: slog.New(slog.DiscardHandler), every: 10 * time.Second, wait: 2 * time.Second, read: func(context.Context) (int, error) {
			time.Sleep(20 * time.Second)
			return 1, nil
		}}
		began := time.Now()
		for range 3 {
			if _, at, err := b.get(t.Context()); !at.IsZero() || err != nil {
				t.Errorf("a value of %s, %v", at, err)
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a page waits %s", took)
		}
		if got, err := b.must(t.Context()); err == nil || time.Since(began) < 4*time.Second {
			t.Errorf("%d, %v after %s: who needs the value waits for it", got, err, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
	})
}
