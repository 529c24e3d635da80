package held

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/test/model/check"
	"swh-scheduler/test/model/slots"
)

// checks draws a number of sequences: few in CI, and many by `make model`.
func checks(t *testing.T, few, many int, property func(*rapid.T)) {
	t.Helper()
	if os.Getenv("SWH_MODEL") == "long" {
		few = many
	}
	if n, err := strconv.Atoi(os.Getenv("SWH_HELD")); err == nil {
		few = n
	}
	before := flag.Lookup("rapid.checks").Value.String()
	_ = flag.Set("rapid.checks", strconv.Itoa(few))
	defer func() { _ = flag.Set("rapid.checks", before) }()
	seed.Check(t, property)
}

// choices draws a sequence of choices among the possible steps: numbers that are taken modulo the number of steps.
// Shrinking removes choices.
func choices(t *rapid.T) (all []uint32) {
	least := rapid.SampledFrom([]int{5, 20, 60, 120}).Draw(t, "least choices")
	for _, n := range rapid.SliceOfN(rapid.Uint32(), least, 2*least).Draw(t, "choices") {
		if n > 0 {
			all = append(all, spread(n))
		}
	}
	return all
}

// spread maps a number to a pseudo-random one, deterministically.
func spread(n uint32) uint32 { return n * 2654435761 >> 8 }

const processes = 2

// slotsBench has the shared parts of sequences: a database, and two processes on it.
type slotsBench struct {
	admin    *pgxpool.Pool
	outcomes settle.Store // the listener's
	procs    [processes]*process

	longest, steps int
	found          int // rows that a batch found unlocked while another batch of its process held them
}

func newSlotsBench(t *testing.T) *slotsBench {
	dsn := testenv.Database(t)
	store := testenv.Open(t, dsn)
	b := &slotsBench{admin: store.Pool(), outcomes: settle.Store{Store: store}}
	stats := newStatistics(t, statsAge)
	for n := range b.procs {
		b.procs[n] = newProcess(t, n, dsn, b.admin, stats)
	}
	return b
}

// slotsWorld is a sequence: the model's state and the database.
type slotsWorld struct {
	*slotsBench
	t      *rapid.T
	limit  int
	shared bool // messages are of a group: they stay in the ledger until their end
	model  check.Model[slots.State]
	state  slots.State
	ids    []uuid.UUID
	trace  []string
	taken  int // steps of the model
}

// action is a possible next action.
type action struct {
	name   string
	do     func()
	weight int
}

func (w *slotsWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter %d steps:\n  %s", fmt.Sprintf(format, args...), w.taken, strings.Join(w.trace, "\n  "))
}

// can reports whether the model has a step now.
func (w *slotsWorld) can(format string, args ...any) bool {
	name := fmt.Sprintf(format, args...)
	return slices.ContainsFunc(w.model.From(w.state), func(s check.Step[slots.State]) bool { return s.Name == name })
}

// step takes a step of the model, which must have it.
func (w *slotsWorld) step(format string, args ...any) {
	name := fmt.Sprintf(format, args...)
	for _, s := range w.model.From(w.state) {
		if s.Name == name {
			w.take(s)
			return
		}
	}
	w.fail("the program does what the model doesn't: %s\n%+v", name, w.state)
}

func (w *slotsWorld) take(s check.Step[slots.State]) {
	w.state = s.Next
	w.trace = append(w.trace, s.Name)
	w.steps++
	w.taken++
	for _, p := range w.model.Always {
		if !p.Holds(w.state) {
			w.fail("broken: %s", p.Name)
		}
	}
}

// blocked reports whether a waiting batch has locked a row that it skips.
func (w *slotsWorld) blocked(row int) bool {
	return slices.ContainsFunc(w.procs[:], func(p *process) bool {
		return slices.ContainsFunc(p.batches, func(d *delivery) bool { return !d.cut && slices.Contains(d.blocked, row) })
	})
}

// rows returns the rows for which such is true.
func (w *slotsWorld) rows(such func(row int, m slots.Message) bool) (rows []int) {
	for i := range w.ids {
		if such(i, w.state.Messages[i]) {
			rows = append(rows, i)
		}
	}
	return rows
}

// actions returns the possible next actions.
func (w *slotsWorld) actions(faults bool) (all []action) {
	add := func(weight int, name string, do func()) { all = append(all, action{name, do, weight}) }
	for _, s := range w.model.From(w.state) {
		kind, p, row := w.kind(s.Name)
		switch kind {
		case ofClaims:
			add(2, s.Name, func() { w.claim(s, w.procs[p]) })
		case ofTheBroker:
			add(2, s.Name, func() { w.take(s) })
		case anAnswer:
			add(2, s.Name, func() { w.answer(s, w.procs[p], row) })
		case anEnd:
			if !w.blocked(row) {
				add(2, s.Name, func() { w.applyEnd(s, row) })
			}
		case aLease:
			add(1, s.Name, func() { w.endLease(s, row) })
		case aReturn:
			add(2, s.Name, func() { w.take(s) })
		case aDeath, aCut, aDisconnect:
			if faults && (kind != aDisconnect || !w.procs[p].passesBy()) {
				add(1, s.Name, func() { w.fault(s, kind, w.procs[p]) })
			}
		}
	}
	for _, p := range w.procs {
		if w.drains(p) {
			add(3, fmt.Sprintf("%d reads a batch", p.n), func() { w.drain(p) })
		}
		if w.publishes(p) {
			add(4, fmt.Sprintf("%d sends its batch", p.n), func() { w.publish(p) })
		}
		if w.writes(p) {
			add(3, fmt.Sprintf("%d writes what became of its batch", p.n), func() { w.write(p) })
		}
	}
	return all
}

// kinds of the model's steps.
type kind int

const (
	ofBatches kind = iota // which the program takes by itself
	ofClaims
	ofTheBroker
	anAnswer
	anEnd
	aLease
	aReturn
	aDeath
	aCut
	aDisconnect
)

func (w *slotsWorld) kind(name string) (k kind, p, row int) {
	for format, k := range map[string]kind{
		"%d: moment O": ofClaims, "%d: figures of the management API": ofClaims, "%d: moment D": ofClaims, "%d: passive declare": ofClaims,
		"%d: passive declare that the leader doesn't answer": ofClaims, "%d: lock, snapshot S": ofClaims, "%d: claim": ofClaims,
		"%d dies, and is started again": aDeath, "%d loses its connection to the broker": aDisconnect,
		"%d loses its connections to the database": aCut, "%d reaches the database again": aReturn,
	} {
		for p := range processes {
			if name == fmt.Sprintf(format, p) {
				return k, p, 0
			}
		}
	}
	for row := range w.ids {
		for p := range processes {
			switch name {
			case fmt.Sprintf("%d: %d is confirmed", p, row):
				return anAnswer, p, row
			case fmt.Sprintf("the lease of %d, which %d can't renew, ends", row, p):
				return aLease, p, row
			}
		}
		switch name {
		case fmt.Sprintf("the end of %d is applied", row):
			return anEnd, 0, row
		case fmt.Sprintf("the lease of %d ends", row):
			return aLease, 0, row
		}
	}
	for _, p := range []string{"read row", "publish", "lease row", "write that", "free row"} {
		if strings.Contains(name, ": "+p+" ") {
			return ofBatches, 0, 0
		}
	}
	return ofTheBroker, 0, 0
}

// lastDelivery returns the date of the last recorded delivery.
func (w *slotsWorld) lastDelivery() time.Time {
	return testenv.Value[time.Time](w.t, w.admin, "select coalesce(max(delivered_at), 'epoch') from scheduler_go.deliveries")
}

func (w *slotsWorld) claim(s check.Step[slots.State], p *process) {
	me, held := w.state.Processes[p.n], w.state
	w.take(s)
	now := w.state.Processes[p.n]
	switch me.Claim {
	case slots.Idle:
		p.begins(int64(w.limit), w.lastDelivery())
	case slots.AfterO:
		p.goOn(claimStep{figures: figures{int(now.ReadyO), int(now.UnackedO), int(now.PrefetchO)}})
	case slots.Figures:
		p.goOn(claimStep{after: w.lastDelivery()})
	case slots.AfterD:
		p.goOn(claimStep{figures: figures{ready: int(now.ReadyD), consumers: int(now.ConsumersD)}})
	case slots.Declared:
		p.goOn(claimStep{})
		if p.claim.free == nil {
			w.fail("the claim of %d failed: %v", p.n, p.claim.err)
		}
		// The next step of the model claims waiting messages up to the free slots.
		claimed := 0
		for i, m := range w.claimed(p.n).Messages {
			if w.state.Messages[i].Row == slots.Waiting && m.Row == slots.Outgoing {
				claimed++
			}
		}
		waiting := len(w.rows(func(_ int, m slots.Message) bool { return m.Row == slots.Waiting }))
		if min(*p.claim.free, waiting) != claimed {
			w.fail("%d found %d free slots, and the model %d, of which %d wait\n%+v", p.n, *p.claim.free, claimed, waiting, now)
		}
	case slots.Counted:
		var work []ledger.Work
		for i, m := range w.state.Messages {
			if held.Messages[i].Row == slots.Waiting && m.Row == slots.Outgoing {
				work = append(work, w.work(i))
			}
		}
		p.goOn(claimStep{work: work})
		if p.claim.err != nil {
			w.fail("the claim of %d failed: %v", p.n, p.claim.err)
		}
		p.claim = nil
	}
}

// claimed returns the state after the claim that has read its snapshot, whoever has the lock.
func (w *slotsWorld) claimed(p int) slots.State {
	name := fmt.Sprintf("%d: claim", p)
	for _, s := range w.model.From(w.state) {
		if s.Name == name {
			return s.Next
		}
	}
	w.fail("the model doesn't claim")
	panic(nil)
}

func (w *slotsWorld) work(row int) ledger.Work {
	work := ledger.Work{TaskID: w.ids[row], Queue: queue, Home: queue, TaskName: "swh.test", Args: json.RawMessage("[]"), Kwargs: json.RawMessage("{}"), Urgent: true, Claimed: time.Now()}
	if w.shared {
		work.Share = ledger.Share{Shared: true, Group: "g", Cost: 1}
	}
	return work
}

// drains reports whether a process may read a batch: its earlier writes must not wait for another process.
func (w *slotsWorld) drains(p *process) bool {
	if w.state.Processes[p.n].Cut || len(p.batches) == 2 {
		return false
	}
	useful := false
	for i := range w.ids {
		m := w.state.Messages[i]
		_, late := p.late[i]
		switch h := m.Hand[p.n]; {
		case late && h == slots.Confirmed, late && h == slots.Lost:
			if m.Locked != 0 || w.blocked(i) {
				return false
			}
			useful = true
		case w.readable(p, i), w.inHand(p, i):
			useful = true
		}
	}
	return useful
}

// readable says whether a process reads a row if it reads a batch.
func (w *slotsWorld) readable(p *process, row int) bool {
	m := w.state.Messages[row]
	_, late := p.late[row]
	forgotten := m.Hand[p.n] == slots.None || m.Hand[p.n] == slots.Lost && !late && !w.inBatch(p, row)
	return forgotten && m.Row == slots.Outgoing && m.Locked == 0 && (m.Lease == 0 || int(m.Lease) == p.n+1 && m.Hand[p.n] == slots.Lost) && !w.blocked(row)
}

func (w *slotsWorld) inBatch(p *process, row int) bool {
	return slices.ContainsFunc(p.batches, func(d *delivery) bool { return slices.Contains(d.rows, row) })
}

// inHand says whether a batch finds a row that another batch of its process holds, as locks were lost.
func (w *slotsWorld) inHand(p *process, row int) bool {
	m := w.state.Messages[row]
	return m.Row == slots.Outgoing && m.Locked == 0 && m.Lease == 0 && m.Hand[p.n] != slots.Lost && w.inBatch(p, row) && !w.blocked(row)
}

func (w *slotsWorld) drain(p *process) {
	var blocked, freed, read []int
	for i := range w.ids {
		_, late := p.late[i]
		switch h := w.state.Messages[i].Hand[p.n]; {
		case late && h == slots.Confirmed:
			w.step("%d: write that %d is confirmed", p.n, i)
			p.silent = false
			delete(p.late, i)
		case late && h == slots.Lost:
			w.step("%d: free row %d", p.n, i)
			freed = append(freed, i)
			delete(p.late, i)
		case h == slots.Lost && w.readable(p, i):
			w.step("%d: free row %d", p.n, i)
			read = append(read, i)
		case w.readable(p, i):
			read = append(read, i)
		case w.inHand(p, i):
			blocked = append(blocked, i)
		}
	}
	d := p.drain()
	// Another batch of the process may have freed a row before this one read, or after.
	for _, i := range freed {
		if w.readable(p, i) && w.isLocked(i) {
			read = append(read, i)
		}
	}
	slices.Sort(read)
	for _, i := range read {
		w.step("%d: read row %d", p.n, i)
	}
	d.rows = read
	if len(p.batches) == 0 && (d.call == nil) != (len(read) == 0) {
		w.fail("%d reads %v, and that it sends them is %t: %v", p.n, read, d.call != nil, d.err)
	}
	if len(p.batches) > 0 {
		d.blocked = blocked
		w.found += len(blocked)
	}
	if len(p.batches) > 0 || d.call != nil {
		p.batches = append(p.batches, d)
	}
}

func (w *slotsWorld) isLocked(row int) bool {
	return testenv.Value[int](w.t, w.admin, "select count(*) from (select from scheduler_go.work where task_id = $1 for no key update skip locked) w", w.ids[row]) == 0
}

// publishes reports whether a batch is at its queue. The model has at most three copies of a message.
func (w *slotsWorld) publishes(p *process) bool {
	if len(p.batches) == 0 || p.batches[0].sent {
		return false
	}
	return !slices.ContainsFunc(p.batches[0].rows, func(i int) bool { return !w.can("%d: publish %d", p.n, i) })
}

func (w *slotsWorld) publish(p *process) {
	d := p.batches[0]
	d.call.answer <- nil
	select {
	case d.call = <-p.publisher.calls:
	case <-d.done:
		w.fail("the batch of %d ended: %v", p.n, d.err)
	}
	d.sent = true
	var want []string
	for _, i := range d.rows {
		want = append(want, w.ids[i].String())
	}
	if got := slices.Sorted(slices.Values(d.call.ids)); !slices.Equal(got, want) {
		w.fail("%d sends %v, want %v", p.n, got, want)
	}
	for _, i := range d.rows {
		w.step("%d: publish %d", p.n, i)
	}
}

// answer makes the broker confirm a message.
func (w *slotsWorld) answer(s check.Step[slots.State], p *process, row int) {
	w.take(s)
	if answer := p.late[row]; answer != nil {
		answer(nil)
		p.late[row] = func(error) {}
	}
}

// writes reports whether the publisher may return: messages without an answer are unanswered.
func (w *slotsWorld) writes(p *process) bool {
	if len(p.batches) == 0 || !p.batches[0].sent {
		return false
	}
	confirmed, unanswered := false, false
	for _, i := range p.batches[0].rows {
		confirmed = confirmed || w.state.Messages[i].Hand[p.n] == slots.Confirmed
		unanswered = unanswered || w.state.Messages[i].Hand[p.n] == slots.Published
	}
	// After two missing answers, a queue is skipped for seconds.
	return !unanswered || !p.silent || confirmed && !p.batches[0].cut
}

func (w *slotsWorld) write(p *process) {
	d := p.batches[0]
	outcomes := make([]error, len(d.call.ids))
	lost := false
	for n, id := range d.call.ids {
		i := slices.IndexFunc(w.ids, func(other uuid.UUID) bool { return other.String() == id })
		switch w.state.Messages[i].Hand[p.n] {
		case slots.Confirmed:
			if d.cut {
				p.late[i] = func(error) {}
				continue
			}
			p.silent = false
			w.step("%d: write that %d is confirmed", p.n, i)
		case slots.Published:
			e, answer := celery.NewUnansweredError(celery.ErrUnconfirmed)
			outcomes[n], p.late[i] = e, answer
		case slots.Lost:
			outcomes[n], lost = celery.ErrUnconfirmed, true
			if !d.cut {
				w.step("%d: free row %d", p.n, i)
			}
		}
	}
	for _, i := range d.rows {
		if w.state.Messages[i].Hand[p.n] == slots.Published && !d.cut {
			p.silent = true
			w.step("%d: lease row %d", p.n, i)
		}
	}
	d.call.answer <- outcomes
	<-d.done
	if (d.err != nil) != (d.cut || lost) {
		w.fail("the batch of %d ended: %v", p.n, d.err)
	}
	p.batches = p.batches[1:]
	if len(p.batches) > 0 {
		next := p.batches[0]
		p.await(next)
		if (next.call == nil) != (len(next.rows) == 0) {
			w.fail("%d has %v in hand, and that it sends them is %t: %v", p.n, next.rows, next.call != nil, next.err)
		}
		if next.call == nil {
			p.batches = nil
		}
	}
}

// applyEnd makes the listener write an end.
func (w *slotsWorld) applyEnd(s check.Step[slots.State], row int) {
	w.take(s)
	end := settle.Outcome{BackendID: w.ids[row].String(), Received: time.Now(), End: &settle.End{Status: model.RunEventful}}
	if err := w.outcomes.ApplyOutcomes(context.Background(), []settle.Outcome{end}); err != nil {
		w.fail("apply the end of %d: %v", row, err)
	}
}

func (w *slotsWorld) endLease(s check.Step[slots.State], row int) {
	w.take(s)
	testenv.Exec(w.t, w.admin, "update scheduler_go.work set not_before = statement_timestamp() where task_id = $1", w.ids[row])
}

func (w *slotsWorld) fault(s check.Step[slots.State], kind kind, p *process) {
	w.take(s)
	switch kind {
	case aDeath:
		p.die()
		p.begin()
	case aCut:
		p.cut()
	case aDisconnect:
		for i, answer := range p.late {
			if w.state.Messages[i].Hand[p.n] == slots.Lost {
				answer(celery.ErrUnconfirmed)
				p.late[i] = func(error) {}
			}
		}
	}
}

// row is a row of the ledger.
type row struct {
	ID       uuid.UUID
	State    string
	Leased   bool
	Unlocked bool
}

// compare fails unless the database equals the model's state.
func (w *slotsWorld) compare() {
	rows := make(map[uuid.UUID]row)
	for _, r := range testenv.Rows[row](w.t, w.admin, `
		with unlocked as (select task_id from scheduler_go.work for no key update skip locked)
		select w.task_id, w.state::text, w.not_before > clock_timestamp(), exists (select from unlocked u where u.task_id = w.task_id) from scheduler_go.work w`) {
		rows[r.ID] = r
	}
	for i, id := range w.ids {
		m, r := w.state.Messages[i], rows[id]
		want := map[slots.Row]string{slots.Outgoing: "outgoing"}[m.Row]
		if m.Row == slots.Sent && w.shared {
			want = "sent"
		}
		if r.State == "settled" && m.Row == slots.Gone {
			r.State = ""
		}
		if r.State != want {
			w.fail("row %d is %q, want %q\n%+v", i, r.State, want, m)
		}
		if m.Row == slots.Outgoing && (r.Leased != (m.Lease != 0) || r.Unlocked != (m.Locked == 0 && !w.blocked(i))) {
			w.fail("row %d is leased: %t, locked: %t\n%+v", i, r.Leased, !r.Unlocked, m)
		}
	}
	for _, p := range w.procs {
		if p.claim == nil {
			continue
		}
		var afterO, afterD int
		for _, m := range w.state.Messages {
			for _, r := range m.Records {
				afterO += int(r.AfterO >> p.n & 1)
				afterD += int(r.AfterD >> p.n & 1)
			}
		}
		d := p.claim.d
		if w.state.Processes[p.n].Claim < slots.AfterD {
			d = time.Now().Add(time.Hour)
		}
		got := testenv.Row[struct{ O, D int }](w.t, w.admin, `select coalesce(sum(messages) filter (where delivered_at >= $1), 0)::int, coalesce(sum(messages) filter (where delivered_at >= $2), 0)::int
			from scheduler_go.deliveries where queue = $3`, p.claim.o, d, queue)
		if got.O != afterO || got.D != afterD {
			w.fail("since O and D of %d %+v messages were delivered, want %d and %d", p.n, got, afterO, afterD)
		}
	}
}

// reset cleans up after a sequence, which may have failed anywhere.
func (b *slotsBench) reset(t *rapid.T) {
	for _, p := range b.procs {
		if !p.idle() {
			p.die()
		}
		p.begin()
	}
	testenv.Exec(t, b.admin, "delete from scheduler_go.work; delete from scheduler_go.deliveries; delete from scheduler_go.share_charges")
}

func (b *slotsBench) sequence(t *rapid.T) {
	defer b.reset(t)
	upTo := func(n int, what string) uint8 { return uint8(rapid.IntRange(0, n).Draw(t, what)) }
	scope := slots.Scope{
		Messages: rapid.IntRange(1, 3).Draw(t, "messages"), Limit: rapid.IntRange(1, 2).Draw(t, "limit"), Claimers: processes, Slow: rapid.Bool().Draw(t, "acknowledge late"),
		Faults: slots.Faults{Crashes: upTo(2, "crashes"), Disconnects: upTo(2, "disconnects"), Cuts: upTo(2, "cuts"), Redeliveries: upTo(1, "redeliveries"), Consumers: upTo(1, "consumers"), Silences: upTo(1, "silences")},
	}
	w := &slotsWorld{slotsBench: b, t: t, limit: scope.Limit, shared: rapid.Bool().Draw(t, "shared"), model: slots.Model(scope, slots.Rules{})}
	w.state = w.model.Initial
	for range scope.Messages {
		w.ids = append(w.ids, uuid.New())
	}
	slices.SortFunc(w.ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	for _, choice := range choices(t) {
		var weighted []action
		for _, a := range w.actions(true) {
			for range a.weight {
				weighted = append(weighted, a)
			}
		}
		if len(weighted) == 0 {
			break
		}
		w.do(weighted[choice%uint32(len(weighted))])
	}
	// From every state all work ends, without further faults.
	for n := uint32(0); !w.ended(); n++ {
		actions := w.actions(false)
		if n == 1000 || len(actions) == 0 {
			w.fail("it doesn't end")
		}
		w.do(actions[spread(n)%uint32(len(actions))])
	}
	b.longest = max(b.longest, w.taken)
}

func (w *slotsWorld) ended() bool {
	for i := range w.ids {
		if w.state.Messages[i].Row != slots.Gone {
			return false
		}
	}
	return w.procs[0].idle() && w.procs[1].idle()
}

func (w *slotsWorld) do(a action) {
	w.trace = append(w.trace, "-- "+a.name)
	a.do()
	w.compare()
}

// Claims, deliveries and ends on PostgreSQL equal the model of slots, step by step: the rows of the ledger, their
// leases and locks, the recorded deliveries, and the free slots of claims.
func TestSlots(t *testing.T) {
	b := newSlotsBench(t)
	began, sequences := time.Now(), 0
	checks(t, 100, 5000, func(t *rapid.T) { sequences++; b.sequence(t) })
	t.Logf("%d sequences, %d steps of the model, the longest %d, %d rows found in hand, %s", sequences, b.steps, b.longest, b.found, time.Since(began).Round(time.Second))
}
