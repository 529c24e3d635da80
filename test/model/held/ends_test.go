package held

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/test/model/check"
	"swh-scheduler/test/model/ends"
)

const (
	laneSet = "load-git"
	cost    = 3 // seconds, as in the model: expected, and the limits of both lanes
	took    = 1
)

var lanes = [2]model.Lane{
	{Name: "express", Queue: "express", SoftTimeLimit: cost * time.Second, TimeLimit: 2 * cost * time.Second},
	{Name: "slow", Queue: "slow", SoftTimeLimit: cost * time.Second, TimeLimit: 2 * cost * time.Second},
}

// endsKnown is the step after which ends are known up to now.
const endsKnown = "the event queue is seen with nothing ready and nothing unacknowledged"

// confirming is a broker that confirms all messages.
type confirming struct{}

func (confirming) DeclareQueue(context.Context, string) error { return nil }
func (confirming) Publish(_ context.Context, m []celery.TaskMessage) []error {
	return make([]error, len(m))
}

// endsBench has the shared parts of sequences.
type endsBench struct {
	store     *db.Store
	outcomes  settle.Store
	deliverer *dispatch.Deliverer

	longest, steps int
}

func newEndsBench(t *testing.T) *endsBench {
	store := testenv.Open(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor, num_retries, retry_delay)
		values ('load-git', '', 'swh.test', '64 days', '1 hour', '64 days', 2, 3, '2 hours')`)
	return &endsBench{store: store, outcomes: settle.Store{Store: store}, deliverer: dispatch.NewDeliverer(store, confirming{}, quiet, nil)}
}

// endsWorld is a sequence: the model's state and the database.
type endsWorld struct {
	*endsBench
	t       *rapid.T
	model   check.Model[ends.State]
	state   ends.State
	works   int
	retries int
	tasks   []int64
	ids     [][]uuid.UUID       // of the tries of each work
	ended   []map[int]time.Time // when tries ended, by the worker's clock
	clock   time.Time           // ahead of the database's; minutes pass with each step
	known   time.Time           // ends are known up to then
	begun   []map[int]time.Time // times from which on a start is known
	over    []map[int]time.Time // when the time of started work was over
	now     time.Time           // of the process that has lanes
	trace   []string
	taken   int // steps of the model
}

func (w *endsWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter %d steps:\n  %s", fmt.Sprintf(format, args...), w.taken, strings.Join(w.trace, "\n  "))
}

func (w *endsWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fail("%v", err)
	}
}

func (w *endsWorld) take(s check.Step[ends.State]) {
	w.state = s.Next
	w.trace = append(w.trace, s.Name)
	w.steps++
	w.taken++
	w.clock = w.clock.Add(2 * time.Minute)
	for _, p := range w.model.Always {
		if !p.Holds(w.state) {
			w.fail("broken: %s", p.Name)
		}
	}
}

// takeAll takes the possible steps of a kind for all works with messages in a lane, as an observation of a queue is
// of all messages.
func (w *endsWorld) takeAll(format string, lane uint8) {
	for i := range w.works {
		if m := w.state.Works[i]; m.Row == ends.Sent && m.Lane == lane {
			if s, ok := w.possible(fmt.Sprintf(format, i)); ok {
				w.take(s)
			}
		}
	}
}

// possible returns the step of a name, if the model has it.
func (w *endsWorld) possible(name string) (check.Step[ends.State], bool) {
	steps := w.model.From(w.state)
	n := slices.IndexFunc(steps, func(s check.Step[ends.State]) bool { return s.Name == name })
	if n < 0 {
		return check.Step[ends.State]{}, false
	}
	return steps[n], true
}

func url(work int) string { return fmt.Sprint("https://example.org/", work) }

// add schedules a run: its message waits in the backlog of a lane.
func (w *endsWorld) add(work, lane int) {
	id := uuid.New()
	w.ids[work] = append(w.ids[work], id)
	testenv.Exec(w.t, w.store.Pool(), `with sent as (update task set status = 'next_run_scheduled' where id = $1)
		insert into task_run (task, backend_id, scheduled) values ($1, $2, now())`, w.tasks[work], id.String())
	message := ledger.Work{
		TaskID: id, Queue: queue, Home: queue, TaskName: "swh.test", Args: json.RawMessage("[]"), Kwargs: json.RawMessage(fmt.Sprintf(`{"n": %d}`, work)), Claimed: time.Now(),
		Share: ledger.Share{Shared: true, Group: fmt.Sprint("g", work), Cost: cost},
		Lane:  ledger.WorkLane{Set: laneSet, Number: lane, Backlog: true, VisitType: "git", URL: url(work)},
	}
	w.must(w.store.InTx(context.Background(), func(ctx context.Context, tx *db.Tx) error { return tx.AddWork(ctx, []ledger.Work{message}) }))
}

// do takes a step in the model and in the database.
func (w *endsWorld) do(s check.Step[ends.State]) {
	before := w.state
	var i, t, lane int
	is := func(format string, into ...any) bool {
		n, err := fmt.Sscanf(s.Name, format, into...)
		return err == nil && n == len(into) && s.Name == fmt.Sprintf(format, values(into)...)
	}
	ctx := context.Background()
	switch {
	case is("%d is sent to lane %d", &i, &lane):
		s = w.send(lane)
	case is("the end of try %d of %d is applied", &t, &i):
		w.must(w.outcomes.ApplyOutcomes(ctx, []settle.Outcome{w.end(i, t)}))
	case is("the runtime of try %d of %d is applied", &t, &i):
		w.must(w.outcomes.ApplyOutcomes(ctx, []settle.Outcome{{BackendID: w.ids[i][t].String(), Received: time.Now(), Runtime: new(took * time.Second)}}))
	case is("the failed visit of try %d of %d is held", &t, &i), is("the failed visit of try %d of %d is known to be a time-out", &t, &i), is("the failed visit of try %d of %d counts", &t, &i):
		w.visit(i, t, s.Next.Works[i].Tries[t].Visit)
	case is("the message of %d is given up", &i):
		lane := before.Works[i].Lane
		var silent []int
		for j := range w.works {
			if _, ok := w.possible(fmt.Sprintf("the message of %d is given up", j)); ok && before.Works[j].Lane == lane {
				silent = append(silent, j)
			}
		}
		if given := w.searchSilent(lane, givesUp); given != len(silent) {
			w.fail("%d messages are given up, want those of %v", given, silent)
		}
		w.takeAll("the message of %d is given up", lane)
		w.takeAll("a look finds %d out of its queue", lane)
		w.follow(before)
		return
	case is("a look finds %d out of its queue", &i):
		lane := before.Works[i].Lane
		w.searchSilent(lane, notes)
		w.take(s)
		w.takeAll("a look finds %d out of its queue", lane)
		return
	case is("the time of %d is over", &i):
		w.over[i][int(before.Works[i].Try)] = w.clock
	case s.Name == endsKnown:
		w.known = w.clock
		for i, m := range s.Next.Works[:w.works] {
			if t := int(m.Try); m.Tries[t].Silent == ends.Begun && before.Works[i].Tries[t].Silent == ends.Noted {
				w.begun[i][t] = w.clock
			}
		}
		w.must(w.store.ForgetObservations(ctx, w.known, w.known.AddDate(-1, 0, 0)))
	case is("the runtime of %d is waited for no more", &i):
		w.age("settled", i)
		w.must(w.store.ForgetSettled(ctx, time.Now().Add(-time.Hour)))
	case is("the run of %d is lost", &i):
		run := testenv.Row[struct {
			ID     int64
			Status model.RunStatus
		}](w.t, w.store.Pool(), "select id, status from task_run where task = $1 order by id desc limit 1", w.tasks[i])
		if n, err := w.store.LoseRuns(ctx, []ledger.SilentRun{{ID: run.ID, Status: run.Status}}, time.Now()); err != nil || n != 1 {
			w.fail("%d runs are lost, %v", n, err)
		}
	case s.Name == "PostgreSQL is unreachable for more than five minutes":
		w.now = w.now.Add(10 * time.Minute)
		w.noneRemoved()
	case s.Name == "a process notes that it has the lanes":
		w.must(w.store.RecordLaneSets(ctx, []string{laneSet}, w.now))
	case s.Name == "five minutes without a gap":
		for range 5 {
			w.now = w.now.Add(time.Minute)
			w.must(w.store.RecordLaneSets(ctx, []string{laneSet}, w.now))
			w.noneRemoved()
		}
	}
	w.take(s)
	w.follow(before)
}

// follow updates the tries after a step.
func (w *endsWorld) follow(before ends.State) {
	for i := range w.works {
		was, now := before.Works[i], w.state.Works[i]
		for t, try := range now.Tries {
			if try.Copy == ends.Finished && was.Tries[t].Copy != ends.Finished {
				w.ended[i][t] = w.clock
			}
		}
		switch {
		case now.Retries < was.Retries:
			w.taskIs(i, "next_run_not_scheduled")
			w.add(i, 1)
		case now.Try > was.Try: // its time-out sent it on, under a new id
			w.ids[i] = append(w.ids[i], testenv.Value[uuid.UUID](w.t, w.store.Pool(), "select task_id from scheduler_go.work where state <> 'settled' and kwargs ->> 'n' = $1", fmt.Sprint(i)))
		case was.Open && !now.Open && now.Tries[now.Try].Outcome == ends.Done && !strings.HasSuffix(w.trace[len(w.trace)-1], "is lost"):
			w.taskIs(i, "completed")
		case was.Open && !now.Open:
			w.taskIs(i, "disabled")
		}
	}
}

// values returns the targets of pointers.
func values(pointers []any) (all []any) {
	for _, p := range pointers {
		all = append(all, *p.(*int))
	}
	return all
}

func (w *endsWorld) taskIs(work int, status string) {
	if got := testenv.Value[string](w.t, w.store.Pool(), "select status::text from task where id = $1", w.tasks[work]); got != status {
		w.fail("the task of %d is %s, want %s", work, got, status)
	}
}

// age makes a message old in one respect.
func (w *endsWorld) age(column string, work int) {
	testenv.Exec(w.t, w.store.Pool(), "update scheduler_go.work set "+column+" = now() - interval '1 day' where kwargs ->> 'n' = $1 and task_id = $2",
		fmt.Sprint(work), w.ids[work][len(w.ids[work])-1])
}

// The effects of a search for messages without events.
const (
	notes   = iota // records the messages out of their queue
	tries          // is rolled back
	givesUp        // also gives up
)

// searchSilent searches for messages without events in a lane's queue, and returns how many it gives up, or would.
//
// It writes the starts of works only for the search: an end with a known start is charged by it, and the model has no
// such ends.
func (w *endsWorld) searchSilent(lane uint8, does int) (given int) {
	silent := ledger.GiveUpFilter{Queue: lanes[lane].Queue, Now: w.clock, SilentBefore: w.known, LostBefore: w.clock.AddDate(-1, 0, 0), Limit: ledger.MaintenanceBatch}
	if does == notes {
		silent.SilentBefore = time.Unix(0, 0)
	}
	begun := false
	for i, m := range w.state.Works[:w.works] {
		if m.Row != ends.Sent || m.Lane != lane {
			continue
		}
		if m.Tries[m.Try].Copy == ends.Queued {
			silent.Waiting++
		}
		if at, ok := w.begun[i][int(m.Try)]; ok {
			begun = true
			limit := 1000 * time.Hour
			if over, ok := w.over[i][int(m.Try)]; ok {
				limit = over.Sub(at)
			}
			testenv.Exec(w.t, w.store.Pool(), "update scheduler_go.work set started = $2, hard_limit = $3 where task_id = $1", w.ids[i][m.Try], model.UnixSeconds(at), limit.Seconds())
		}
	}
	undo := errors.New("the look is undone")
	err := w.store.ByKey(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockQueues(ctx, silent.Queue); err != nil {
			return err
		}
		n, _, err := tx.GiveUpWork(ctx, silent)
		given = n[laneSet]
		if err == nil && does == tries {
			err = undo
		}
		return err
	})
	if !errors.Is(err, undo) {
		w.must(err)
	}
	if begun {
		testenv.Exec(w.t, w.store.Pool(), "update scheduler_go.work set started = null where started is not null")
	}
	return given
}

func (w *endsWorld) noneRemoved() {
	if sets, err := w.store.RemovedLaneSets(context.Background(), w.now); err != nil || len(sets) > 0 {
		w.fail("removed: %v, %v", sets, err)
	}
}

// send sends the first message of a lane's backlog. It returns the model's step.
func (w *endsWorld) send(lane int) check.Step[ends.State] {
	w.must(w.store.InTx(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockQueues(ctx, queue); err != nil {
			return err
		}
		return tx.SendBacklog(ctx, laneSet, lane, lane, 1, lanes[lane], 1-lane, w.clock)
	}))
	sent := testenv.Column[int](w.t, w.store.Pool(), "select (kwargs ->> 'n')::int from scheduler_go.work where state = 'outgoing'")
	if len(sent) != 1 {
		w.fail("%v are outgoing, want one", sent)
	}
	_, err := w.deliverer.Drain(context.Background())
	w.must(err)
	name := fmt.Sprintf("%d is sent to lane %d", sent[0], lane)
	s, ok := w.possible(name)
	if !ok {
		w.fail("the program does what the model doesn't: %s", name)
	}
	return s
}

// end is the event of the end of a try.
func (w *endsWorld) end(work, try int) settle.Outcome {
	end := settle.End{Status: model.RunFailed, Error: new("it failed"), EventTime: model.UnixSeconds(w.ended[work][try].Add(time.Millisecond))}
	switch w.state.Works[work].Tries[try].Outcome {
	case ends.Done:
		end.Status, end.Error = model.RunEventful, nil
	case ends.TimedOut:
		end.TimedOut = true
	case ends.Revoked:
		end.Final = settle.Revoked
	}
	return settle.Outcome{BackendID: w.ids[work][try].String(), Received: time.Now(), End: &end}
}

// visit runs the journal client on a failed visit: a new one, with the store's state of the origin, or one that it
// kept back.
func (w *endsWorld) visit(work, try int, want ends.Visit) {
	ctx := context.Background()
	key := model.OriginKey{URL: url(work), VisitType: "git"}
	date := w.ended[work][try]
	if w.state.Works[work].Tries[try].Visit == ends.Held {
		w.must(w.store.UpdateVisitStats(ctx, []model.OriginKey{key}, func(ledger.KnownVisits) ledger.VisitChanges {
			return ledger.VisitChanges{Counted: []ledger.HeldVisit{{OriginKey: key, Date: date}}}
		}))
		return
	}
	became := ends.Counted
	w.must(w.store.UpdateVisitStats(ctx, []model.OriginKey{key}, func(known ledger.KnownVisits) (c ledger.VisitChanges) {
		const skew = time.Minute
		for _, o := range known.TimedOut[key] {
			if !date.Before(o.Claimed.Add(-skew)) && !date.After(o.TimedOut) {
				became = ends.Dropped
				return c
			}
		}
		for _, l := range known.Laned[key] {
			if !date.Before(l.Since.Add(-skew)) {
				became = ends.Held
				c.Held = []ledger.HeldVisit{{OriginKey: key, TaskID: l.TaskID, Date: date}}
			}
		}
		return c
	}))
	if became != want {
		w.fail("the failed visit of try %d of %d is %d, want %d", try, work, became, want)
	}
}

// compare fails unless the database equals the model's state.
func (w *endsWorld) compare() {
	pool := w.store.Pool()
	type row struct {
		Work  int
		ID    uuid.UUID
		State string
		Lane  *int16
	}
	rows := testenv.Rows[row](w.t, pool, "select (kwargs ->> 'n')::int, task_id, state::text, lane from scheduler_go.work")
	type run struct {
		Work, Open, Ended int
		ID                string
	}
	runs := testenv.Rows[run](w.t, pool, `select t.n::int, (count(*) filter (where r.status in ('scheduled', 'started')))::int, (count(*) filter (where r.status not in ('scheduled', 'started')))::int,
		coalesce(max(r.backend_id) filter (where r.status in ('scheduled', 'started')), '')
		from task_run r join unnest($1::bigint[]) with ordinality t (id, n) on t.id = r.task group by t.n order by t.n`, w.tasks)
	type task struct {
		Status  string
		Retries int
	}
	tasks := testenv.Rows[task](w.t, pool, `select k.status::text, k.retries_left::int from task k join unnest($1::bigint[]) with ordinality t (id, n) on t.id = k.id order by t.n`, w.tasks)
	charged := testenv.Column[float64](w.t, pool, `select coalesce((select sum(seconds) from scheduler_go.share_charges c where c.share_group = 'g' || n), 0)
		from generate_series(0, $1::int - 1) n order by n`, w.works)
	held := testenv.Column[string](w.t, pool, "select url from scheduler_go.held_visits order by url")
	released, err := w.store.ReleasedVisits(context.Background(), 100)
	w.must(err)
	if s, ok := w.possible(endsKnown); ok && s.Next == w.state {
		w.known = w.clock
	}
	var wantHeld, wantReleased []string
	var sent, silent [len(lanes)]int
	for i := range w.works {
		m := w.state.Works[i]
		if m.Row == ends.Sent {
			sent[m.Lane]++
			if m.Tries[m.Try].Silent == ends.Known {
				silent[m.Lane]++
			}
		}
		var want, got []string
		switch m.Row {
		case ends.Backlog:
			want = []string{fmt.Sprint("backlog in lane ", m.Lane)}
		case ends.Sent:
			want = []string{fmt.Sprint("sent in lane ", m.Lane)}
		case ends.Settled:
			want = []string{fmt.Sprint("settled in lane ", m.Lane)}
		}
		for _, r := range rows {
			if r.Work != i {
				continue
			}
			if r.State != "settled" || m.Row == ends.Settled && r.ID == w.ids[i][m.Try] {
				got = append(got, fmt.Sprint(r.State, " in lane ", *r.Lane))
				continue
			}
			// Failed work is settled for a while, too, as its runtime might still come.
			if t := slices.Index(w.ids[i][:], r.ID); t < 0 || m.Tries[t].Outcome == ends.Done {
				w.fail("%d has a settled message of try %d\n%+v", i, t, m)
			}
		}
		if !slices.Equal(got, want) {
			w.fail("messages of %d: %v, want %v\n%+v", i, got, want, m)
		}
		r, open := runs[i], 0
		if m.Open {
			open = 1
		}
		if r.Open != open || m.Open && r.ID != w.ids[i][m.Try].String() || r.Ended != w.retries-int(m.Retries)+1-open {
			w.fail("runs of %d: %+v\n%+v", i, r, m)
		}
		if task := tasks[i]; m.Open && (task.Status != string(model.TaskScheduled) || task.Retries != int(m.Retries)) {
			w.fail("task of %d: %+v\n%+v", i, task, m)
		}
		total := 0
		for t, try := range m.Tries {
			total += int(try.Charged)
			if try.Visit == ends.Held {
				wantHeld = append(wantHeld, url(i))
				if m.Row != ends.Sent || int(m.Try) != t {
					wantReleased = append(wantReleased, url(i))
				}
			}
		}
		if charged[i] != float64(total) {
			w.fail("%d was charged %v s, want %d\n%+v", i, charged[i], total, m)
		}
	}
	for lane, n := range silent {
		if sent[lane] == 0 {
			continue
		}
		if given := w.searchSilent(uint8(lane), tries); given != n {
			w.fail("in lane %d %d messages would be given up, want %d\n%+v", lane, given, n, w.state.Works)
		}
	}
	var gotReleased []string
	for _, v := range released {
		gotReleased = append(gotReleased, v.URL)
	}
	slices.Sort(gotReleased)
	if !slices.Equal(held, wantHeld) || !slices.Equal(gotReleased, wantReleased) {
		w.fail("held: %v, want %v; of which count: %v, want %v", held, wantHeld, gotReleased, wantReleased)
	}
}

func (b *endsBench) sequence(t *rapid.T) {
	defer testenv.Exec(t, b.store.Pool(), `delete from scheduler_go.work; delete from task_run; delete from task; delete from scheduler_go.share_charges;
		delete from scheduler_go.held_visits; delete from scheduler_go.lane_timeouts; delete from scheduler_go.lane_history; delete from scheduler_go.queue_looks; delete from scheduler_go.configured_lanes`)
	upTo := func(n int, what string) uint8 { return uint8(rapid.IntRange(0, n).Draw(t, what)) }
	scope := ends.Scope{
		Works: rapid.IntRange(1, 2).Draw(t, "works"), Retries: rapid.IntRange(0, 1).Draw(t, "retries"),
		Faults: ends.Faults{
			Deaths: upTo(2, "deaths"), Losses: upTo(2, "losses"), Crashes: upTo(3, "listeners' deaths"), Outages: upTo(1, "outages"),
			ScaleDown: upTo(1, "scale-downs"), Failures: upTo(2, "failures"), Revokes: upTo(1, "revokes"),
		},
	}
	w := &endsWorld{endsBench: b, t: t, model: ends.Model(scope, ends.Rules{}), works: scope.Works, retries: scope.Retries, clock: time.Now().Add(time.Hour), now: time.Now()}
	w.state = w.model.Initial
	w.must(b.store.RecordLaneSets(context.Background(), []string{laneSet}, w.now))
	for i := range scope.Works {
		w.tasks = append(w.tasks, testenv.Value[int64](t, b.store.Pool(), `insert into task (type, arguments, next_run, current_interval, status, policy, retries_left)
			values ('load-git', '{"args": [], "kwargs": {}}', now(), '64 days', 'next_run_scheduled', 'oneshot', $1) returning id`, scope.Retries))
		w.ids, w.ended = append(w.ids, nil), append(w.ended, make(map[int]time.Time))
		w.begun, w.over = append(w.begun, make(map[int]time.Time)), append(w.over, make(map[int]time.Time))
		w.add(i, 0)
	}
	next := func(choice uint32) bool {
		steps := slices.DeleteFunc(w.model.From(w.state), func(s check.Step[ends.State]) bool { return s.Next == w.state })
		if len(steps) > 0 {
			w.do(steps[choice%uint32(len(steps))])
			w.compare()
		}
		return len(steps) > 0
	}
	for _, choice := range choices(t) {
		next(choice)
	}
	for n := uint32(0); next(spread(n)); n++ { // faults come to an end, too
	}
	if end := w.model.Eventually[0]; !end.Holds(w.state) {
		w.fail("not in the end: %s", end.Name)
	}
	b.longest = max(b.longest, w.taken)
}

// Ends of work in any order and twice, time-outs, further tries, given up work, held visits and charges on PostgreSQL
// equal the model of ends, step by step.
func TestEnds(t *testing.T) {
	b := newEndsBench(t)
	began, sequences := time.Now(), 0
	checks(t, 100, 5000, func(t *rapid.T) { sequences++; b.sequence(t) })
	t.Logf("%d sequences, %d steps of the model, the longest %d, %s", sequences, b.steps, b.longest, time.Since(began).Round(time.Second))
}
