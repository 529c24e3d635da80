package origins

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

const (
	maxHintSources = 1000
	// hintWait is how long further hints of an origin whose visit waits change nothing.
	hintWait = time.Minute
	// createdCounted is how long a count of the origins that hints created is in use.
	createdCounted = 10 * time.Second
)

// hinted are the rows of the origins of some hints, by URL.
type hinted map[string][]*queries.HintedOriginsRow

// hintedKey is the key of a listed origin.
type hintedKey struct {
	lister         uuid.UUID
	url, visitType string
}

func hintedKeyOf(r *queries.HintedOriginsRow) hintedKey {
	return hintedKey{r.ListerID, r.URL, r.VisitType}
}

// of returns the origins of a hint: those of its own spelling or, without one, of the others.
func (rows hinted) of(h model.Hint) (found []*queries.HintedOriginsRow) {
	for _, url := range model.Spellings(h.URL) {
		for _, r := range rows[url] {
			if h.VisitType == "" || h.VisitType == r.VisitType {
				found = append(found, r)
			}
		}
		if found != nil && url == h.URL {
			break
		}
	}
	return found
}

// hintPlan is what a transaction writes for some hints.
type hintPlan struct {
	results []model.HintResult
	rows    [][]*queries.HintedOriginsRow // of each hint
	at      []time.Time                   // of each hint, not after the transaction
	moves   map[hintedKey]time.Time
}

// planHints decides what becomes of hints at now. It applies each hint to the rows before the next one.
func planHints(hints []model.Hint, rows hinted, now time.Time) hintPlan {
	p := hintPlan{make([]model.HintResult, len(hints)), make([][]*queries.HintedOriginsRow, len(hints)), make([]time.Time, len(hints)), map[hintedKey]time.Time{}}
	for i, h := range hints {
		if p.at[i] = h.ChangedAt; h.ChangedAt.IsZero() || h.ChangedAt.After(now) {
			p.at[i] = now
		}
		p.rows[i] = rows.of(h)
		p.results[i] = p.planOne(p.rows[i], p.at[i])
	}
	return p
}

// planOne applies a hint to the rows of its origin.
func (p hintPlan) planOne(rows []*queries.HintedOriginsRow, at time.Time) model.HintResult {
	result := model.HintUnknown
	for _, r := range rows {
		one := model.HintMoved
		switch {
		case !r.Enabled:
			one = model.HintDisabled
		case !r.LastUpdate.Before(at):
			one = model.HintNewer
		case at.Sub(r.LastUpdate) < hintWait && unseen(r):
			one = model.HintRepeated
		default:
			r.LastUpdate, p.moves[hintedKeyOf(r)] = at, at
		}
		if hintRank[one] > hintRank[result] {
			result = one
		}
	}
	return result
}

// hintRank orders results of the rows of one origin: that of a hint is the highest.
var hintRank = map[model.HintResult]int{
	model.HintUnknown: 0, model.HintDisabled: 1, model.HintNewer: 2, model.HintRepeated: 3, model.HintMoved: 4,
}

// unseen reports whether no visit was scheduled, and none ended, since the last update of an origin.
func unseen(r *queries.HintedOriginsRow) bool {
	return r.LastScheduled.Before(r.LastUpdate) && r.LastVisit.Before(r.LastUpdate)
}

// Hint applies valid hints in one transaction, and returns the result of each. A hint moves listed_origins.last_update
// of its enabled origins to its date, never over a later one, and never beyond the transaction's date. It also counts
// hints that aren't valid, by source, as refused.
func (s Store) Hint(ctx context.Context, hints []model.Hint, refused map[string]int) (results []model.HintResult, err error) {
	if len(hints) == 0 && len(refused) == 0 {
		return nil, nil
	}
	err = s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		now, err := tx.q.TransactionTime(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.hintedOrigins(ctx, hints)
		if err != nil {
			return err
		}
		p := planHints(hints, rows, now)
		if err := tx.moveHinted(ctx, &p); err != nil {
			return err
		}
		if err := s.createHinted(ctx, tx, hints, &p); err != nil {
			return err
		}
		if err := s.noteHints(ctx, tx, hints, p); err != nil {
			return err
		}
		results = p.results
		return tx.countHints(ctx, hints, results, refused)
	})
	if err != nil {
		s.hinting.recount()
	}
	return results, stmt.Failed(err, "write %d hints", len(hints))
}

// hintedOrigins reads the origins of hints: by their own URLs, then by the other spellings of those that are not there.
func (tx *Tx) hintedOrigins(ctx context.Context, hints []model.Hint) (hinted, error) {
	rows := hinted{}
	read := func(urls []string) error {
		slices.Sort(urls)
		found, err := tx.q.HintedOrigins(ctx, slices.Compact(urls))
		for i := range found {
			rows[found[i].URL] = append(rows[found[i].URL], &found[i])
		}
		return err
	}
	var urls, others []string
	for _, h := range hints {
		urls = append(urls, h.URL)
	}
	if len(urls) == 0 {
		return rows, nil
	}
	if err := read(urls); err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for url := range rows {
		own[url] = true
	}
	for _, h := range hints {
		if rows.of(h) == nil {
			for _, url := range model.Spellings(h.URL) {
				if !own[url] && url != h.URL {
					others = append(others, url)
				}
			}
		}
	}
	if others == nil {
		return rows, nil
	}
	return rows, read(others)
}

// moveHinted writes the moves. A hint that a lister's later date forestalled has the result newer.
func (tx *Tx) moveHinted(ctx context.Context, p *hintPlan) error {
	if len(p.moves) == 0 {
		return nil
	}
	var arg queries.MoveHintedParams
	for key, at := range p.moves {
		arg.ListerID, arg.URL = append(arg.ListerID, key.lister), append(arg.URL, key.url)
		arg.VisitType, arg.ChangedAt = append(arg.VisitType, key.visitType), append(arg.ChangedAt, at)
	}
	rows, err := tx.q.MoveHinted(ctx, arg)
	if err != nil || len(rows) == len(p.moves) {
		return err
	}
	moved := map[hintedKey]bool{}
	for _, r := range rows {
		moved[hintedKey{r.ListerID, r.URL, r.VisitType}] = true
	}
	for i, result := range p.results {
		if result == model.HintMoved && !slices.ContainsFunc(p.rows[i], func(r *queries.HintedOriginsRow) bool { return moved[hintedKeyOf(r)] }) {
			p.results[i] = model.HintNewer
		}
	}
	return nil
}

// hinting counts the origins that hints created, for their bound. It is safe for concurrent use.
type hinting struct {
	mu      sync.Mutex
	lister  uuid.UUID
	count   int
	counted time.Time
}

// createHinted creates origins of hints of unknown ones, if that is configured and there is room. Processes together
// may exceed the bound by the hints of createdCounted.
func (s Store) createHinted(ctx context.Context, tx *Tx, hints []model.Hint, p *hintPlan) error {
	var arg queries.CreateHintedParams
	u := s.unknown
	for i, h := range hints {
		if p.results[i] == model.HintUnknown && u.Creates() && u.MayCreate(h) {
			arg.URL, arg.VisitType = append(arg.URL, h.URL), append(arg.VisitType, cmp.Or(h.VisitType, u.VisitType))
			arg.ChangedAt = append(arg.ChangedAt, p.at[i])
		}
	}
	if arg.URL == nil {
		return nil
	}
	s.hinting.mu.Lock()
	defer s.hinting.mu.Unlock()
	room, err := s.hinting.room(ctx, tx, u)
	if err != nil || room <= 0 {
		return err
	}
	n := min(room, len(arg.URL))
	arg.ListerID, arg.URL, arg.VisitType, arg.ChangedAt = s.hinting.lister, arg.URL[:n], arg.VisitType[:n], arg.ChangedAt[:n]
	rows, err := tx.q.CreateHinted(ctx, arg)
	s.hinting.count += len(rows)
	for i, h := range hints {
		created := func(r queries.CreateHintedRow) bool {
			return r.URL == h.URL && r.VisitType == cmp.Or(h.VisitType, u.VisitType)
		}
		if p.results[i] == model.HintUnknown && slices.ContainsFunc(rows, created) {
			p.results[i] = model.HintCreated
		}
	}
	return err
}

// recount makes the next transaction count, as this one is rolled back.
func (h *hinting) recount() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counted = time.Time{}
}

// room returns how many origins hints may create. The caller holds mu.
func (h *hinting) room(ctx context.Context, tx *Tx, u model.UnknownHints) (int, error) {
	if h.counted.IsZero() || time.Since(h.counted) > createdCounted {
		l, err := tx.GetOrCreateLister(ctx, u.Lister, u.Instance, nil)
		if err != nil {
			return 0, err
		}
		n, err := tx.q.CountListed(ctx, queries.CountListedParams{ListerID: l.ID, Bound: int32(min(u.Max, math.MaxInt32))})
		if err != nil {
			return 0, err
		}
		h.lister, h.count, h.counted = l.ID, int(n), time.Now()
	}
	return u.Max - h.count, nil
}

// noteHints records the last hint of each origin with a result of known ones, unless it repeats another.
func (s Store) noteHints(ctx context.Context, tx *Tx, hints []model.Hint, p hintPlan) error {
	type key struct{ url, visitType string }
	var arg queries.NoteHintsParams
	at := map[key]int{}
	for i, h := range hints {
		rows := p.rows[i]
		switch p.results[i] {
		case model.HintMoved, model.HintNewer:
		case model.HintCreated:
			rows = []*queries.HintedOriginsRow{{URL: h.URL, VisitType: cmp.Or(h.VisitType, s.unknown.VisitType), Enabled: true}}
		default:
			continue
		}
		for _, r := range rows {
			if !r.Enabled {
				continue
			}
			moved := p.results[i] != model.HintNewer
			n, noted := at[key{r.URL, r.VisitType}]
			switch {
			case !noted:
				at[key{r.URL, r.VisitType}] = len(arg.URL)
				arg.URL, arg.VisitType, arg.Snapshot = append(arg.URL, r.URL), append(arg.VisitType, r.VisitType), append(arg.Snapshot, r.LastSnapshot)
				arg.Source, arg.ChangedAt, arg.Moved = append(arg.Source, h.Source), append(arg.ChangedAt, p.at[i]), append(arg.Moved, moved)
			case moved && p.at[i].After(arg.ChangedAt[n]):
				arg.Source[n], arg.ChangedAt[n], arg.Moved[n] = h.Source, p.at[i], true
			}
		}
	}
	if arg.URL == nil {
		return nil
	}
	return tx.q.NoteHints(ctx, arg)
}

func (tx *Tx) countHints(ctx context.Context, hints []model.Hint, results []model.HintResult, refused map[string]int) error {
	counts := map[string]*model.HintAnswer{}
	of := func(source string) *model.HintAnswer {
		if counts[source] == nil {
			counts[source] = new(model.HintAnswer)
		}
		return counts[source]
	}
	for i, h := range hints {
		of(h.Source).Add(results[i])
	}
	for source, n := range refused {
		of(source).Refused += n
	}
	arg := queries.CountHintsParams{MaxSources: maxHintSources}
	for source, n := range counts {
		arg.Source = append(arg.Source, source)
		arg.Moved, arg.Newer, arg.Repeated = append(arg.Moved, int64(n.Moved)), append(arg.Newer, int64(n.Newer)), append(arg.Repeated, int64(n.Repeated))
		arg.Unknown, arg.Created = append(arg.Unknown, int64(n.Unknown)), append(arg.Created, int64(n.Created))
		arg.Disabled, arg.Refused = append(arg.Disabled, int64(n.Disabled)), append(arg.Refused, int64(n.Refused))
	}
	return tx.q.CountHints(ctx, arg)
}

// HintOrigins checks hints, applies the valid ones, and counts all by their results. It does so in transactions of
// model.MaxHints.
func (s Store) HintOrigins(ctx context.Context, hints []model.Hint) (answer model.HintAnswer, err error) {
	for part := range slices.Chunk(hints, model.MaxHints) {
		var valid []model.Hint
		refused := map[string]int{}
		for _, h := range part {
			if why := h.Check(); why != nil {
				answer.Refuse(h.URL, why)
				if model.IsHintSource(h.Source) {
					refused[h.Source]++
				}
				continue
			}
			valid = append(valid, h)
		}
		results, err := s.Hint(ctx, valid, refused)
		if err != nil {
			return answer, err
		}
		answer.Add(results...)
	}
	return answer, nil
}

// LastHint is the last hint of an origin.
type LastHint = queries.LastHintsRow

// LastHints returns the last hints of a URL's visit types.
func (a Queries) LastHints(ctx context.Context, url string, visitTypes ...string) ([]LastHint, error) {
	rows, err := a.q.LastHints(ctx, queries.LastHintsParams{URL: url, VisitTypes: visitTypes})
	return rows, stmt.Failed(err, "read the last hints of an origin")
}

// HintSource has the counts of the hints of a source.
type HintSource = queries.SchedulerGoHintSource

// HintSources returns the counts of all sources.
func (a Queries) HintSources(ctx context.Context) ([]HintSource, error) {
	rows, err := a.q.HintSources(ctx)
	return rows, stmt.Failed(err, "read the sources of hints")
}

// hintsAStep is how many hints one statement of maintenance checks or deletes.
const hintsAStep = 5000

// MaintainHints counts visits after hints, moves origins again that a lister has set back before their visit, and
// deletes old hints, for about atMost.
func (s Store) MaintainHints(ctx context.Context, atMost time.Duration) error {
	began := time.Now()
	for _, step := range []func(context.Context, int32) (int64, error){s.settleHints, s.q.ForgetHints} {
		for n := int64(hintsAStep); n == hintsAStep && time.Since(began) < atMost; {
			var err error
			if n, err = step(ctx, hintsAStep); err != nil {
				return stmt.Failed(err, "maintain hints")
			}
		}
	}
	return nil
}

// settleHints checks due hints in a transaction, and returns how many. Like Hint, it locks listed_origins before
// scheduler_go.hints.
func (s Store) settleHints(ctx context.Context, most int32) (n int64, err error) {
	err = s.inTx(ctx, postgres.ByKey, func(ctx context.Context, tx *Tx) error {
		rows, err := tx.q.OverwrittenHints(ctx, most)
		if err != nil {
			return err
		}
		moves := map[hintedKey]time.Time{}
		for _, r := range rows {
			moves[hintedKey{r.ListerID, r.URL, r.VisitType}] = r.ChangedAt
		}
		if err := tx.moveHinted(ctx, &hintPlan{moves: moves}); err != nil {
			return err
		}
		n, err = tx.q.SettleHints(ctx, most)
		return err
	})
	return n, err
}
