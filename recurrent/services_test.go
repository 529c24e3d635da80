package recurrent

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
	"swh-scheduler/sql/db"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const queue = "swh.loader.git.tasks.UpdateGitRepository"

// world is a database with origins, and a broker, for one scheduler: ours or the Python one.
type world struct {
	dsn       string
	broker    testenv.Broker
	store     *db.Store
	deliverer *dispatch.Deliverer
	slots     *dispatch.Slots
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dsn: testenv.Database(t), broker: testenv.RabbitMQ(t)}
	w.store = testenv.Open(t, w.dsn)
	address := parsed.Broker(t, w.broker.URL)
	publisher := celery.NewPublisher(address, celery.PublisherOptions{})
	t.Cleanup(func() { _ = publisher.Close() })
	inspector := celery.NewQueueInspector(address, w.broker.ManagementURL, celery.InspectorOptions{})
	t.Cleanup(func() { _ = inspector.Close() })
	w.deliverer = dispatch.NewDeliverer(w.store, publisher, logger(t), prometheus.NewRegistry())
	w.slots = dispatch.NewSlots(w.store, inspector, w.deliverer.Wake)
	w.exec(t, `insert into task_type (type, description, backend_name, max_queue_length) values ('load-git', '', $1, 100)`, queue)
	w.exec(t, `insert into listers (id, name, instance_name, current_state, updated) values
		('00000000-0000-0000-0000-000000000001', 'gitea', 'forge', '{}', now()), ('00000000-0000-0000-0000-000000000002', 'github', '', '{}', now())`)
	return w
}

func logger(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func (w *world) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	testenv.Exec(t, w.store.Pool(), statement, args...)
}

// list adds origins that were never visited, with or without a known last update.
func (w *world) list(t *testing.T, kind string, n int, updated bool) {
	t.Helper()
	var lastUpdate *time.Time
	if updated {
		lastUpdate = new(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	w.exec(t, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select ('00000000-0000-0000-0000-00000000000' || 1 + n % 2)::uuid, $1 || n, 'git',
		       case when n % 3 = 0 then jsonb_build_object('depth', 1180591620717411303424, 'é<', '&') else '{}' end, true, now(), $3
		from generate_series(1, $2::int) n`, "https://"+kind+"/", n, lastUpdate)
}

// These are the Python scheduler's waits.
const (
	queueFullBackoff = time.Minute
	noOriginsBackoff = 20 * time.Minute
)

func (w *world) round(t *testing.T, policies []model.WeightedPolicy) *round {
	t.Helper()
	s := New(Options{
		Store: w.store, Slots: w.slots, Log: logger(t), Reg: prometheus.NewRegistry(),
		Policies:         map[string][]model.WeightedPolicy{"default": policies},
		NoOriginsBackoff: noOriginsBackoff, QueueFullBackoff: queueFullBackoff,
	})
	return &round{Scheduler: s, visitType: "git", log: logger(t)}
}

func runRound(t *testing.T, r *round) {
	t.Helper()
	if _, err := r.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// messages delivers the claimed visits, empties the queue and returns the bodies, sorted.
func (w *world) messages(t *testing.T) []string {
	t.Helper()
	if _, err := w.deliverer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for _, d := range testenv.Take(t, testenv.Channel(t, w.broker.URL), queue) {
		bodies = append(bodies, fmt.Sprintf("%v %s", d.Headers["task"], d.Body))
	}
	slices.Sort(bodies)
	return bodies
}

// scheduled returns the marked origins.
func (w *world) scheduled(t *testing.T) []string {
	t.Helper()
	return testenv.Column[string](t, w.store.Pool(), `select url from origin_visit_stats
		where last_scheduled between now() - interval '5 min' and now() order by url`)
}

func weighted(weights map[model.VisitPolicy]float64) []model.WeightedPolicy {
	var policies []model.WeightedPolicy
	for _, name := range []model.VisitPolicy{model.AlreadyVisitedOrderByLag, model.NeverVisitedOldestUpdateFirst, model.OriginsWithoutLastUpdate} {
		policies = append(policies, model.WeightedPolicy{Weight: weights[name], Filter: model.VisitFilter{Policy: name, Cooldowns: model.DefaultCooldowns}})
	}
	return policies
}

var evenly = weighted(map[model.VisitPolicy]float64{
	model.AlreadyVisitedOrderByLag: 40, model.NeverVisitedOldestUpdateFirst: 40, model.OriginsWithoutLastUpdate: 20,
})

// roundOfPeer runs a round of the Python scheduler; all policies have equal weights.
func (w *world) roundOfPeer(t *testing.T) {
	t.Helper()
	config := testenv.File(t, "scheduler.yml", fmt.Sprintf(`scheduler: {cls: postgresql, db: %q}
celery: {task_broker: %q}
scheduling_policy:
  git:
  - {policy: already_visited_order_by_lag, weight: 40}
  - {policy: never_visited_oldest_update_first, weight: 40}
  - {policy: origins_without_last_update, weight: 20}
`, w.dsn, w.broker.URL))
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "testdata/send_visits.py", "git")
	cmd.Env = append(os.Environ(), testenv.EndsConnections(), "SWH_CONFIG_FILENAME="+config)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the Python scheduler's round: %v\n%s", err, out)
	}
}

// The Python scheduler leaves the slots empty that a policy can't fill; ours gives them to the other
// policies.
func TestSlotsThatThePeerLeavesEmpty(t *testing.T) {
	t.Parallel()
	theirs, ours := newWorld(t), newWorld(t)
	for _, w := range []*world{theirs, ours} {
		w.list(t, "plain", 160, false) // all match one policy, with 20 of 100 slots
	}
	theirs.roundOfPeer(t)
	runRound(t, ours.round(t, evenly))
	if python, here := len(theirs.scheduled(t)), len(ours.scheduled(t)); python != 20 || here != 100 {
		t.Errorf("the Python scheduler fills %d of 100 slots, want 20; ours %d, want all", python, here)
	}
}

// A round sends the same messages and marks the same origins as the Python scheduler's round.
func TestRoundLeavesWhatThePeerLeaves(t *testing.T) {
	t.Parallel()
	theirs, ours := newWorld(t), newWorld(t)
	for _, w := range []*world{theirs, ours} {
		w.list(t, "updated", 30, true) // fits into the policy's 40 slots
		w.list(t, "plain", 15, false)  // fits into 20
	}
	theirs.roundOfPeer(t)
	runRound(t, ours.round(t, evenly))
	// It sends without confirms, so the broker may still route its messages after its end.
	ch := testenv.Channel(t, theirs.broker.URL)
	testenv.Becomes(t, "messages of the Python scheduler", 45, func() int { return testenv.Ready(t, ch, queue) })
	got, want := ours.messages(t), theirs.messages(t)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 45 {
		t.Errorf("%d messages (-peer +ours):\n%s", len(got), diff)
	}
	if diff := cmp.Diff(theirs.scheduled(t), ours.scheduled(t)); diff != "" {
		t.Errorf("marked origins (-peer +ours):\n%s", diff)
	}
}

// Policies fill the slots that others leave, up to the queue's limit and not beyond. The waits are the
// Python scheduler's.
func TestRoundsFillTheQueueAndThenWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 160, false) // only one policy of three has candidates
	r := w.round(t, evenly)
	for i, step := range []struct {
		wait      time.Duration
		scheduled int // the total after the round
		consume   bool
	}{
		{0, 100, false},                // the limit, in one round
		{queueFullBackoff, 100, true},  // full: outgoing messages and the queue's count together
		{0, 160, true},                 // the test emptied the queue: the rest
		{noOriginsBackoff, 160, false}, // all origins are cooling down
		{noOriginsBackoff, 160, false},
	} {
		wait, err := r.runOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.scheduled(t)); wait != step.wait || n != step.scheduled {
			t.Errorf("round %d: wait %s and %d scheduled, want %s and %d", i, wait, n, step.wait, step.scheduled)
		}
		if step.consume {
			w.messages(t)
		}
	}
}

// A full queue gets no more messages in any round, even while a worker holds some and the broker's figures
// lag.
func TestRoundsStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit, prefetch = 100, 60 // the limit of newWorld
	w := newWorld(t)
	w.list(t, "plain", 300, false)
	r := w.round(t, evenly)
	full := func(where string) {
		t.Helper()
		for range 3 {
			wait, err := r.runOnce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := len(w.scheduled(t)); n != limit || wait != queueFullBackoff {
				t.Fatalf("with all messages %s, %d origins are scheduled, want %d; the next round waits %s", where, n, limit, wait)
			}
		}
	}
	runRound(t, r)
	full("outgoing")
	if _, err := w.deliverer.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	full("ready")
	ch := testenv.Channel(t, w.broker.URL)
	if err := ch.Qos(prefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	late := time.After(time.Minute)
	for held := range prefetch {
		select {
		case <-deliveries:
		case <-late:
			t.Fatalf("the worker holds %d messages after a minute", held)
		}
	}
	full("ready or held")
}

// A limit changed in the database holds from the next round on.
func TestRoundReadsTheLimitAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 50, false)
	w.exec(t, "update task_type set max_queue_length = 10")
	r := w.round(t, evenly)
	runRound(t, r)
	w.exec(t, "update task_type set max_queue_length = 25")
	runRound(t, r)
	if n := len(w.scheduled(t)); n != 25 {
		t.Errorf("%d origins scheduled, want 25", n)
	}
}

// A round of a visit type without a task type returns an error with the type's name. A round that fails
// marks no origin.
func TestRoundThatFailsMarksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.list(t, "plain", 5, false)
	w.exec(t, "alter table scheduler_go.work add check (task_name = '')") // writing a message fails
	if _, err := w.round(t, evenly).runOnce(t.Context()); err == nil {
		t.Error("no error for messages that can't be written")
	}
	if n := len(w.scheduled(t)); n != 0 {
		t.Errorf("%d origins are marked without a message", n)
	}
	w.exec(t, "delete from task_type")
	if _, err := w.round(t, evenly).runOnce(t.Context()); err == nil {
		t.Error("no error for a missing task type")
	}
}
