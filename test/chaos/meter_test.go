package chaos

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// histogram has cumulative counts by upper bound, as in Prometheus.
type histogram map[float64]float64

func (h histogram) add(other histogram) {
	for le, n := range other {
		h[le] += n
	}
}

func (h histogram) total() float64 {
	return h[slices.MaxFunc(append(slices.Collect(maps.Keys(h)), 0), cmp.Compare)]
}

// quantile returns a quantile in seconds, interpolated as Prometheus does; 0 without observations.
func (h histogram) quantile(part float64) float64 {
	var from, below float64
	rank := part * h.total()
	for _, le := range slices.Sorted(maps.Keys(h)) {
		if n := h[le]; n >= rank && n > 0 {
			if le > 1e9 { // beyond all bounds
				return from
			}
			return from + (le-from)*(rank-below)/max(n-below, 1)
		}
		from, below = le, h[le]
	}
	return 0
}

// size is the size of a table.
type size struct {
	Name                      string
	Bytes, Live, Dead, Vacuum int64
	Threshold                 int64 // dead rows at which autovacuum begins
}

// memoryOf is the memory of a process at the end of an hour.
type memoryOf struct{ pid, kB int64 }

// hour has the measurements of an hour, or at its end.
type hour struct {
	events []string
	claims histogram
	urgent []float64 // seconds from the addition of tasks with priority to their start
	tables []size    // ours; empty if PostgreSQL was unreachable
	others []size    // the Python scheduler's
	memory map[string]memoryOf
}

// meter measures hours.
type meter struct {
	w       *watcher
	from    time.Time
	lasts   time.Duration
	done    chan struct{} // closed after the last hour
	events  [dayHours][]string
	mu      sync.Mutex
	all     []*hour
	claimed map[string]histogram // by daemon: its last histogram
}

func newMeter(w *watcher, from time.Time, lasts time.Duration) *meter {
	return &meter{w: w, from: from, lasts: lasts, done: make(chan struct{}), all: []*hour{newHour()}, claimed: map[string]histogram{}}
}

func newHour() *hour { return &hour{claims: histogram{}, memory: map[string]memoryOf{}} }

// began records a beginning event, and returns its hour.
func (m *meter) began(what string) (n int) {
	n = min(int(time.Since(m.from)/m.lasts), dayHours-1)
	m.events[n] = append(m.events[n], what)
	return n + 1
}

// run measures until the last hour ends.
func (m *meter) run(ctx context.Context) {
	defer close(m.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	every(ctx, max(time.Second, m.lasts/15), func() {
		m.readClaims(ctx)
		if n := len(m.all); time.Since(m.from) > time.Duration(n)*m.lasts {
			m.endHour(ctx)
			if n == dayHours {
				cancel()
			}
		}
	})
}

// endHour takes the measurements of the end of an hour, and begins the next one.
func (m *meter) endHour(ctx context.Context) {
	tables, err := m.sizes(ctx, "s.schemaname = 'scheduler_go'")
	others, err2 := m.sizes(ctx, "s.schemaname = 'public'")
	if err := errors.Join(err, err2); err != nil {
		m.w.c.t.Logf("hour %d: %v", len(m.all), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.all[len(m.all)-1]
	h.tables, h.others = tables, others
	for _, d := range m.w.c.daemons {
		pid := d.pid.Load()
		h.memory[d.name] = memoryOf{pid, int64(memory(pid, "VmRSS:"))}
	}
	m.all = append(m.all, newHour())
}

func (m *meter) sizes(ctx context.Context, which string) ([]size, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rows, err := m.w.c.pool.Query(ctx, `select s.relname, pg_total_relation_size(s.relid), s.n_live_tup, s.n_dead_tup, s.autovacuum_count,
		coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::float8)::bigint
			+ (coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::float8) * greatest(c.reltuples, 0))::bigint
		from pg_stat_user_tables s join pg_class c on c.oid = s.relid, lateral (
			select max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_threshold') as threshold,
				max(option_value::float8) filter (where option_name = 'autovacuum_vacuum_scale_factor') as scale
			from pg_options_to_table(c.reloptions) where option_name like 'autovacuum_vacuum_%') o
		where `+which+` order by s.relname`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[size])
}

// readClaims adds the claims since the last reading to the present hour.
func (m *meter) readClaims(ctx context.Context) {
	for _, d := range m.w.c.daemons {
		if strings.HasPrefix(d.name, "start-runner") || strings.HasPrefix(d.name, "schedule-recurrent") {
			if now, err := m.claimsOf(ctx, d); err == nil {
				m.mu.Lock()
				m.all[len(m.all)-1].claims.add(since(now, m.claimed[d.name]))
				m.claimed[d.name] = now
				m.mu.Unlock()
			}
		}
	}
}

// since returns the counts of now that before lacks; a restarted daemon counts from zero.
func since(now, before histogram) histogram {
	if now.total() < before.total() {
		return now
	}
	added := maps.Clone(now)
	for le, n := range before {
		added[le] -= n
	}
	return added
}

// claimsOf reads a daemon's histogram of claims, of all queues.
func (m *meter) claimsOf(ctx context.Context, d *daemon) (histogram, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := m.w.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	found := histogram{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "swh_scheduler_claim_seconds_bucket{")
		if !ok {
			continue
		}
		_, rest, _ := strings.Cut(labels, `le="`)
		bound, rest, _ := strings.Cut(rest, `"`)
		le, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return nil, err
		}
		found[le] += n
	}
	return found, lines.Err()
}

// hours returns the measurements, with the waits of tasks with priority from their additions to their first starts in
// the workers' notes.
func (m *meter) hours(urgent map[string]time.Time, notes string) ([]*hour, error) {
	text, err := os.ReadFile(notes)
	if err != nil {
		return nil, err
	}
	done, err := readNotes(text)
	if err != nil {
		return nil, err
	}
	all := m.all[:dayHours]
	for n, h := range all {
		h.events = m.events[n]
	}
	for key, added := range urgent {
		n := int(added.Sub(m.from) / m.lasts)
		if pieces := done[key]; len(pieces) > 0 && n < len(all) {
			all[n].urgent = append(all[n].urgent, pieces[0].first-float64(added.UnixMilli())/1000)
		}
	}
	for _, h := range all {
		slices.Sort(h.urgent)
	}
	return all, nil
}

// quantileOf returns a quantile of sorted values.
func quantileOf(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

// lasting are our tables that keep rows of each task, run, origin or graph for weeks, and so grow with them; and ended,
// which keeps what ended for some hours by the clock, longer than the test lasts.
var lasting = []string{"candidates", "graphs", "graph_tasks", "graph_edges", "run_starts", "run_durations", "lane_memory", "ended"}

// Allowed growth: of memory and tables, compared with the beginning, and of times, generously, as other work may load
// the machine.
const (
	mostGrowth   = 1.5
	memoryGrowth = 16 << 10 // kB
	tableGrowth  = 1 << 20  // bytes
	deadRow      = 1 << 10  // bytes, with its index entries; a bound of the space that autovacuum leaves
	deadRows     = 2000     // while autovacuum is at work
	slower       = 3
	claimSlack   = 1.0 // seconds
	urgentSlack  = 5.0
	compared     = 3 // hours at the end and at the beginning
)

// grown returns the figures that have grown too much in a day. It compares memory in the last hour with the second
// hour and with the first whole hour of the same process. It compares tables and their dead rows with the second
// hour, and times of the last hours with those of the first ones.
func grown(hours []*hour) (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	second, last := hours[1], hours[len(hours)-1]
	for _, name := range slices.Sorted(maps.Keys(last.memory)) {
		now := last.memory[name]
		base, when := second.memory[name], "second hour"
		if i := slices.IndexFunc(hours, func(h *hour) bool { return h.memory[name].pid == now.pid }); i+1 < len(hours)-1 {
			if first := hours[i+1].memory[name]; first.kB < base.kB {
				base, when = first, "first whole hour of its process"
			}
		}
		if float64(now.kB) > mostGrowth*float64(base.kB)+memoryGrowth {
			fault("%s has %d kB in the last hour, and had %d in the %s", name, now.kB, base.kB, when)
		}
	}
	if len(second.tables) == 0 || len(last.tables) == 0 {
		fault("PostgreSQL could not be asked at the end of the second hour, or of the last one")
	}
	var vacuums int64
	for _, now := range slices.Concat(last.tables, last.others) {
		vacuums += now.Vacuum
		if allowed := now.Threshold*3/2 + deadRows; now.Dead > allowed {
			fault("%s has %d dead rows in the last hour, want %d at most", now.Name, now.Dead, allowed)
		}
	}
	if vacuums == 0 {
		fault("no autovacuum was at work")
	}
	for _, now := range last.tables {
		i := slices.IndexFunc(second.tables, func(s size) bool { return s.Name == now.Name })
		if i < 0 {
			continue // of a later migration
		}
		base := float64(second.tables[i].Bytes)
		if slices.Contains(lasting, now.Name) {
			base *= max(1, float64(now.Live)/float64(max(1, second.tables[i].Live)))
		}
		if float64(now.Bytes) > mostGrowth*base+tableGrowth+float64(now.Threshold*deadRow) {
			fault("%s has %d bytes of %d rows in the last hour, and had %d of %d in the second one", now.Name, now.Bytes, now.Live, second.tables[i].Bytes, second.tables[i].Live)
		}
	}
	first, end := hours[:compared], hours[len(hours)-compared:]
	if was, is := claimsIn(first).quantile(0.99), claimsIn(end).quantile(0.99); is > slower*was+claimSlack {
		fault("99 %% of claims took %.2f s at most in the last %d hours, and %.2f s in the first ones", is, compared, was)
	}
	if was, is := quantileOf(urgentIn(first), 0.99), quantileOf(urgentIn(end), 0.99); is > slower*was+urgentSlack {
		fault("99 %% of tasks with priority began within %.2f s in the last %d hours, and within %.2f s in the first ones", is, compared, was)
	}
	return wrong
}

func claimsIn(hours []*hour) histogram {
	all := histogram{}
	for _, h := range hours {
		all.add(h.claims)
	}
	return all
}

func urgentIn(hours []*hour) (all []float64) {
	for _, h := range hours {
		all = append(all, h.urgent...)
	}
	slices.Sort(all)
	return all
}

// tabulate returns the tables of a report on hours, as Markdown.
func tabulate(hours []*hour) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("\n| hour | what begins | claims: number, p50, p99 | task with priority until it begins: number, p50, p99 | our tables | dead rows in ours, in the Python scheduler's | most memory of a daemon |\n|---|---|---|---|---|---|---|")
	for i, h := range hours {
		var bytes, dead, deadOthers, most int64
		for _, s := range h.tables {
			bytes, dead = bytes+s.Bytes, dead+s.Dead
		}
		for _, s := range h.others {
			deadOthers += s.Dead
		}
		for _, m := range h.memory {
			most = max(most, m.kB)
		}
		line("| %d | %s | %.0f, %s, %s | %d, %.1f s, %.1f s | %.1f MiB | %d, %d | %d MiB |", i+1, strings.Join(h.events, "; "),
			h.claims.total(), milliseconds(h.claims.quantile(0.5)), milliseconds(h.claims.quantile(0.99)),
			len(h.urgent), quantileOf(h.urgent, 0.5), quantileOf(h.urgent, 0.99), float64(bytes)/(1<<20), dead, deadOthers, most>>10)
	}
	second, middle, last := hours[1], hours[len(hours)/2-1], hours[len(hours)-1]
	line("\n| daemon | memory in hour 2 | %d | %d |\n|---|---|---|---|", len(hours)/2, len(hours))
	for _, name := range slices.Sorted(maps.Keys(last.memory)) {
		line("| %s | %d MiB | %d MiB | %d MiB |", name, second.memory[name].kB>>10, middle.memory[name].kB>>10, last.memory[name].kB>>10)
	}
	line("\n| table of ours | in hour 2: rows, dead, KiB | %d | %d |\n|---|---|---|---|", len(hours)/2, len(hours))
	of := func(h *hour, name string) string {
		for _, s := range h.tables {
			if s.Name == name {
				return fmt.Sprintf("%d, %d, %d", s.Live, s.Dead, s.Bytes>>10)
			}
		}
		return ""
	}
	for _, s := range last.tables {
		if s.Live+s.Dead > 0 {
			line("| %s | %s | %s | %s |", s.Name, of(second, s.Name), of(middle, s.Name), of(last, s.Name))
		}
	}
	return b.String()
}

func milliseconds(s float64) string { return fmt.Sprintf("%.0f ms", s*1000) }
