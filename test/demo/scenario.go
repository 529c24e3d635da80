package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// queueLimit is the max_queue_length of visits: small, so that the queue
	// is full for most of the demo.
	queueLimit = 50
	// loaders and savers are the pool sizes of the two workers.
	loaders = 3
	savers  = 1

	observeInterval = 200 * time.Millisecond
	// stopBound is the daemons' own bound on how long they take to stop.
	stopBound = 35 * time.Second
	// settleTime is how long the demo looks on once all is done, for work that
	// nobody asked for. It is longer than the daemons' periods, and than
	// RabbitMQ's interval between two counts of published messages.
	settleTime = 6 * time.Second
)

// The long-lived processes, by the names of their logs.
const (
	runnerProcess    = "start-runner"
	priorityProcess  = "start-runner-with-priority"
	recurrentProcess = "schedule-recurrent"
	listenerProcess  = "start-listener"
	journalProcess   = "journal-client"
	loaderProcess    = "worker"
	saverProcess     = "worker-save-code-now"
)

var daemons = []string{runnerProcess, priorityProcess, recurrentProcess, listenerProcess, journalProcess}

// errTimeout is the cause of a context ended by the demo's own time-out.
var errTimeout = errors.New("not done in time")

// scenario is one run of the main job.
type scenario struct {
	options
	dir       string // of this run
	resources *resources
	processes *processes
	show      *progress
	db        *pgx.Conn
	sampler   *sampler
	ledger    *ledger

	repositories []repository
	wanted       repository // not listed: a save-code-now request asks for it
	saved        saved
	vanished     bool
	committed    map[string]bool // by URL
	relisted     bool
}

func (s *scenario) archive() string { return filepath.Join(s.dir, "archive") }
func (s *scenario) listed() string  { return filepath.Join(s.dir, "repositories", "listed") }

// cli runs one of the scheduler's commands.
func (s *scenario) cli(ctx context.Context, args ...string) error {
	_, err := s.processes.run(ctx, append([]string{s.Scheduler}, args...)...)
	return err
}

// prepare makes the repositories, the database's schema and the task types.
func (s *scenario) prepare(ctx context.Context) error {
	var err error
	if s.repositories, err = makeRepositories(s.listed(), s.Repositories); err != nil {
		return err
	}
	s.wanted = repository{Path: filepath.Join(s.dir, "repositories", "wanted", "project.git"), Kind: plain}
	if err := s.wanted.make(0, repository{}, time.Now()); err != nil {
		return err
	}
	s.show.note("made %d git repositories below %s", len(s.repositories), s.listed())
	if err := os.Mkdir(s.archive(), 0o755); err != nil {
		return err
	}
	limit := fmt.Sprintf("--max-queue-length=%d", queueLimit)
	for _, command := range [][]string{
		{"migrate"},
		{"task-type", "add", limit, "list-demo", listTask, "List a directory of git repositories"},
		{"task-type", "add", limit, "load-git", loadTask, "Visit a git repository"},
	} {
		if err := s.cli(ctx, command...); err != nil {
			return err
		}
	}
	s.show.note("made the database's schema and two task types, whose queues may hold %d messages", queueLimit)
	return nil
}

// start starts the daemons and the workers.
func (s *scenario) start() error {
	for _, p := range []struct {
		name string
		argv []string
	}{
		{listenerProcess, []string{s.Scheduler, "start-listener"}},
		{journalProcess, []string{s.Scheduler, "journal-client"}},
		{runnerProcess, []string{s.Scheduler, "start-runner", "--period", "1"}},
		{priorityProcess, []string{s.Scheduler, "start-runner", "--period", "1", "--with-priority"}},
		{recurrentProcess, []string{s.Scheduler, "schedule-recurrent"}},
		{loaderProcess, workerCommand(s.resources.python, "worker", loaders, listTask, loadTask)},
		{saverProcess, workerCommand(s.resources.python, "save-code-now", savers, saveQueue)},
	} {
		if err := s.processes.start(p.name, p.argv...); err != nil {
			return err
		}
	}
	s.show.note("started %d daemons and 2 Celery workers", len(daemons))
	return nil
}

// list schedules a listing of the repositories.
func (s *scenario) list(ctx context.Context) error {
	return s.cli(ctx, "task", "add", "list-demo", "--policy", "oneshot",
		"directory="+s.listed(), fmt.Sprintf("fetch_seconds=%g", s.FetchTime.Seconds()))
}

// watch follows the job, and does what the world around the scheduler does
// meanwhile, until everything is done.
func (s *scenario) watch(ctx context.Context) error {
	sampling, stopSampling := context.WithCancel(ctx)
	sampled := make(chan error, 1)
	go func() { sampled <- s.sampler.run(sampling) }()
	defer func() {
		stopSampling()
		<-sampled
	}()
	tick := time.NewTicker(observeInterval)
	defer tick.Stop()
	var done time.Time
	for {
		o, err := observe(ctx, s.db)
		if err != nil {
			return err
		}
		s.ledger.add(o)
		if err := s.react(ctx); err != nil {
			return err
		}
		s.show.update(s.stages())
		switch {
		case !s.done():
			done = time.Time{}
		case done.IsZero():
			done = time.Now()
		case time.Since(done) >= settleTime:
			return nil
		}
		select {
		case <-tick.C:
		case err := <-sampled:
			sampled <- nil // for the deferred wait
			return err
		case child := <-s.processes.ended:
			return fmt.Errorf("%s ended: %v; its log, %s, ends:\n%s", child.name, child.err, child.log, child.lastLines(15))
		case <-ctx.Done():
			return s.stalled(context.Cause(ctx))
		}
	}
}

// react changes the repositories and makes the requests when their time has
// come.
func (s *scenario) react(ctx context.Context) error {
	if !s.vanished && s.ledger.last.Listed >= len(s.repositories) {
		s.vanished = true
		for _, r := range s.repositories {
			if r.Kind == vanishing {
				if err := os.RemoveAll(r.Path); err != nil {
					return err
				}
			}
		}
		s.show.note("%d repositories were listed; the newest vanish", s.ledger.last.Listed)
	}
	for _, r := range s.repositories {
		if r.Kind == growing && !s.committed[r.URL()] && len(s.ledger.results[r.URL()]) > 0 {
			s.committed[r.URL()] = true
			if err := r.commit("More\n", time.Now()); err != nil {
				return err
			}
		}
	}
	if !s.relisted && len(s.committed) == s.growing() {
		s.relisted = true
		s.show.note("%d repositories have new commits; listing them again", len(s.committed))
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	if s.saved.Asked.IsZero() && s.timeToSave() {
		s.saved = saved{URL: s.wanted.URL(), Asked: time.Now(), Waiting: s.sampler.current()}
		s.show.note("save-code-now requested, with %d visits waiting", s.saved.Waiting)
		return s.cli(ctx, "task", "add", "load-git", "--policy", "oneshot", "--priority", "high",
			"url="+s.saved.URL, fmt.Sprintf("fetch_seconds=%g", s.FetchTime.Seconds()))
	}
	return nil
}

// timeToSave is when there is much in the queue to overtake, once a third of the
// visits are scheduled; at the latest when half of them are done.
func (s *scenario) timeToSave() bool {
	n := len(s.repositories)
	return s.ledger.scheduled() >= n/3 && s.sampler.current() >= queueLimit/2 ||
		s.ledger.visited(s.repositories) >= n/2
}

func (s *scenario) growing() int {
	return count(slices.Values(s.repositories), func(r repository) bool { return r.Kind == growing })
}

// savedDone counts the save-code-now requests that were served: its run has
// ended, and its result is in the database.
func (s *scenario) savedDone() int {
	run, ok := s.ledger.savedRun()
	if ok && !run.open() && len(s.ledger.results[s.saved.URL]) > 0 {
		return 1
	}
	return 0
}

func (s *scenario) stages() []stage {
	n := len(s.repositories)
	return []stage{
		{Name: "listed", Done: s.ledger.last.Listed, Total: n},
		{Name: "scheduled", Done: s.ledger.scheduled(), Total: n + s.growing()},
		{Name: "first visits", Done: s.ledger.visited(s.repositories), Total: n},
		{Name: "second visits", Done: count(maps.Keys(s.committed), s.ledger.foundNews), Total: s.growing()},
		{Name: "save-code-now", Done: s.savedDone(), Total: 1},
		{Name: "queue", Done: s.sampler.current(), Total: queueLimit, Level: true},
	}
}

// done says whether every stage is complete and nothing is under way.
func (s *scenario) done() bool {
	return s.missing() == nil && !slices.ContainsFunc(s.ledger.last.Runs, runRow.open) &&
		s.ledger.last.Outbox == 0 && s.sampler.current() == 0
}

// missing names the stages that are not complete.
func (s *scenario) missing() (missing []string) {
	for _, stage := range s.stages() {
		if !stage.Level && stage.Done < stage.Total {
			missing = append(missing, fmt.Sprintf("%s %d of %d", stage.Name, stage.Done, stage.Total))
		}
	}
	return missing
}

// stalled adds to a time-out which stages were not complete, and the log of the
// process that they seem to wait for.
func (s *scenario) stalled(cause error) error {
	if !errors.Is(cause, errTimeout) {
		return cause
	}
	missing := s.missing()
	if missing == nil {
		missing = []string{"something is still under way, or the results of one-shot tasks are missing"}
	}
	executions, err := readExecutions(s.archive())
	if err != nil {
		return errors.Join(cause, err)
	}
	suspect := waitsFor(s.ledger, executions, s.saved)
	cause = fmt.Errorf("%w (%s): %s", cause, s.Timeout, strings.Join(missing, ", "))
	if child := s.processes.find(suspect); child != nil {
		return fmt.Errorf("%w; it waits for %s, whose log, %s, ends:\n%s", cause, suspect, child.log, child.lastLines(15))
	}
	return cause
}

// collect gathers the evidence, all but how the daemons stop.
func (s *scenario) collect(ctx context.Context) (evidence, error) {
	e := evidence{
		Repositories: s.repositories, Ledger: s.ledger, Saved: s.saved,
		QueuePeak: s.sampler.peak, QueueLimit: queueLimit,
		Published: map[string]int{},
	}
	for _, name := range []string{listTask, loadTask, saveQueue} {
		queue, err := s.resources.queue(ctx, name)
		if err != nil {
			return e, err
		}
		e.Published[name] = queue.Counts.Publish
	}
	var err error
	e.Executions, err = readExecutions(s.archive())
	return e, err
}
