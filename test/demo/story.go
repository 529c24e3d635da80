package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/term"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/swh"
	"swh-scheduler/internal/testenv/throwaway"
)

const (
	lookInterval = 200 * time.Millisecond
	// stopBound is the longest time that daemons take to stop, by their own rules.
	stopBound = 35 * time.Second
	// settleTime is how long the demo watches after all is done, for unexpected work. It is longer than the daemons'
	// periods and RabbitMQ's interval between two counts of published messages.
	settleTime = 6 * time.Second
)

// daemon is one of our daemons: the name of its log, and its command.
type daemon struct{ name, command string }

var (
	rpcDaemon       = daemon{"rpc-serve", "rpc-serve --host 127.0.0.1 --port"}
	recurrentDaemon = daemon{"schedule-recurrent", "schedule-recurrent"}
	dashboardDaemon = daemon{"dashboard", "dashboard --host 127.0.0.1 --port"} // only if all stays running

	daemons = []daemon{
		rpcDaemon,
		{"start-listener", "start-listener"},
		{"journal-client", "journal-client"},
		{"start-runner", "start-runner --period 1"},
		{"start-runner-with-priority", "start-runner --period 1 --with-priority"},
		recurrentDaemon,
	}
	// senders are the daemons that send messages.
	senders = []string{"start-runner", "start-runner-with-priority", "schedule-recurrent"}
)

// story is one run of the main job.
type story struct {
	*program
	options
	servers
	dir      string // of this run
	show     *progress
	world    *world
	parts    *swh.Parts
	watcher  *watcher
	children map[string]*testenv.Child // by name
	restarts int                       // of workers, by celeryFailed
	db       *pgxpool.Pool             // of the scheduler
	archive  *pgx.Conn                 // of the storage

	config   string            // configuration file of the database's owner
	configs  map[string]string // those of our daemons, by name
	server   int               // port of the RPC server
	metrics  []string          // addresses of the daemons' metrics; none unless all stays running
	evidence *evidence
	steps    []step     // not yet done, in this order
	command  chan error // gets the result of the command that a step has started; nil if none is running
}

// step is an event around the scheduler, with its condition.
type step struct {
	due func() bool
	do  func()
}

// playIn runs the main job with its files in a directory, checks it and prints the verdict.
func playIn(p *program, dir string, o options) {
	begin := time.Now()
	s := &story{
		program: p, options: o, dir: dir, show: newProgress(),
		children: map[string]*testenv.Child{}, evidence: &evidence{Claims: map[string][]time.Time{}},
	}
	s.show.note("starting PostgreSQL, RabbitMQ and Kafka, those that the environment does not name")
	s.servers = startServers(p, o.Log)
	s.prepare()
	s.watcher = newWatcher(p, &s.servers)
	s.evidence.Queues = s.watcher.queues
	s.must(s.list())
	s.watch()

	e := s.evidence
	e.Expected, e.Origins = len(s.faults()), s.world.inTheEnd()
	var err error
	e.Executions, err = readExecutions(dir)
	s.must(err)
	if o.Keeper == nil {
		e.Stopped = s.stop()
	}
	e.Refusals, err = refusals(dir)
	s.must(err)
	checks := verdict(e)
	color := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
	printSummary(os.Stdout, e, checks, time.Since(begin), color)
	if n := len(failed(checks)); n > 0 {
		s.Fatalf("%d of %d checks failed", n, len(checks))
	}
	if o.Keeper != nil {
		s.lookAround(os.Stdout)
		s.must(o.Keeper.keep(s))
	}
}

// stop stops our daemons and returns how they ended.
func (s *story) stop() map[string]error {
	errs, how := make([]error, len(daemons)), map[string]error{}
	var all sync.WaitGroup
	for i, d := range daemons {
		all.Go(func() { errs[i] = s.children[d.name].Stop(stopBound) })
	}
	all.Wait()
	for i, d := range daemons {
		how[d.name] = errs[i]
	}
	return how
}

func (s *story) start(name string, argv ...string) {
	s.children[name] = testenv.StartChild(s.program, s.dir, name, argv...)
}

func (s *story) startDaemon(d daemon) {
	argv := append([]string{s.Scheduler, "-C", s.configs[d.name]}, strings.Fields(d.command)...)
	if d == rpcDaemon {
		argv = append(argv, fmt.Sprint(s.server))
	}
	if s.Keeper != nil {
		s.metrics = append(s.metrics, s.freeAddress())
		argv = append(argv, "--metrics-addr", s.metrics[len(s.metrics)-1])
	}
	s.start(d.name, argv...)
}

func (s *story) freePort() int {
	ports, err := throwaway.FreePorts(1)
	s.must(err)
	return ports[0]
}

func (s *story) freeAddress() string { return fmt.Sprintf("127.0.0.1:%d", s.freePort()) }

// write writes a file that only its owner can read, as configurations have passwords, and returns its path.
func (s *story) write(name, text string) string {
	path := filepath.Join(s.dir, name)
	s.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// runCommand runs a command until it ends or ctx does. The error has the command's output.
func runCommand(ctx context.Context, argv ...string) error {
	_, err := output(ctx, argv...)
	return err
}

// output is runCommand, and returns the command's output.
func output(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// ours runs a command of our program.
func (s *story) ours(args ...string) {
	s.must(runCommand(s.ctx, append([]string{s.Scheduler, "-C", s.config}, args...)...))
}

// swh runs a command of the Python scheduler's command line, which uses our RPC server.
func (s *story) swh(args ...string) error {
	for {
		err := runCommand(s.ctx, s.parts.SchedulerCommand(args...)...)
		// The server may not listen yet.
		if err == nil || s.ctx.Err() != nil || !strings.Contains(err.Error(), "Connection refused") {
			return err
		}
	}
}

// prepare creates the repositories and packages and starts the daemons and workers, except for the daemon that
// schedules visits. That one starts when both forges are listed, so that they have to share.
func (s *story) prepare() {
	s.server = s.freePort()
	s.config = s.write("scheduler.yml", s.configuration(s.ofDatabase()))
	lister := newClient("listers", `roles: [lister], listers: ["gitweb/*", "GNU/*"]`)
	operator := newClient("operator", "roles: [operator]")
	s.parts = swh.NewParts(s.program, s.dir, swh.Storage{DSN: s.storage, Brokers: s.kafka, Prefix: s.journal}, s.throughWay,
		swh.Servers{Listers: lister.at(s.serverURL()), Commands: operator.at(s.serverURL())})
	for _, worker := range []*testenv.Child{
		s.parts.StartLister(2), s.parts.StartLoader("express", 3, expressQueue),
		s.parts.StartLoader("slow", 3, slowQueue, archivesQueue), s.parts.StartLoader("save-code-now", 1, saveQueue),
	} {
		s.children[worker.Name] = worker
	}
	s.ours("migrate", "--door")
	s.ours("migrate", "--grants")
	s.configure([]client{lister, operator})
	for _, d := range daemons {
		if d != recurrentDaemon {
			s.startDaemon(d)
		}
	}
	s.parallel(
		func() {
			for _, argv := range s.parts.StorageCommands() {
				s.must(runCommand(s.ctx, argv...))
			}
		},
		func() { s.world = openWorld(s.program, filepath.Join(s.dir, "world"), s.Repositories, s.Archives) },
		func() {
			s.ours("task-type", "add", fmt.Sprintf("--max-queue-length=%d", archivesLimit),
				"load-tar", archivesQueue, "Load the releases of a package")
			s.must(s.swh("task-type", "register", "-p", "lister.gitweb", "-p", "lister.gnu", "-p", "loader.git"))
		},
	)
	var err error
	s.db, err = pgxpool.New(s.ctx, s.scheduler)
	s.must(err)
	s.Cleanup(s.db.Close)
	s.archive = testenv.Connect(s.program, s.storage)
	s.show.note("started the archive's lister, loaders and storage, two forges with %d git repositories,\n%9sa server of %d packages, and %d of our daemons",
		s.Repositories, "", s.Archives, len(daemons)-1)
	s.plan()
}

// list schedules listings of the forges and the packages.
func (s *story) list() error {
	file := ""
	for _, l := range [][3]string{
		{"list-gitweb", s.world.forges[large].URL, large}, {"list-gitweb", s.world.forges[small].URL, small},
		{"list-gnu-full", s.world.packages.URL, packages},
	} {
		file += fmt.Sprintf("%s;{\"url\": %q, \"instance\": %q};oneshot\n", l[0], l[1], l[2])
	}
	return s.swh("task", "schedule", "-d", ";", "-c", "type", "-c", "kwargs", "-c", "policy", s.write("listings.csv", file))
}

// plan sets the steps of the story.
func (s *story) plan() {
	e := s.evidence
	s.steps = []step{{
		func() bool { return e.Listed == len(s.world.origins) && !e.open() },
		func() {
			s.world.vanish()
			s.show.note("%d origins are listed; %d vanish; visits are scheduled from now on", e.Listed, len(s.world.of(vanishing)))
			s.startDaemon(recurrentDaemon)
		},
	}, {s.timeToSave, s.save}}
	for _, f := range s.faults() {
		s.steps = append(s.steps, step{func() bool { return s.timeFor(f) }, func() { s.fall(f) }})
	}
	var grown time.Time
	s.steps = append(s.steps, step{
		func() bool { return s.visited(growing) && s.saved() && s.newerThanVisits(time.Now()) },
		func() {
			grown = time.Now()
			s.world.grow()
		},
	}, step{
		// gitweb doesn't report the changes of the last two seconds.
		func() bool { return time.Since(grown) > 4*time.Second },
		func() {
			s.show.note("%d origins have new commits, or a new release; all are listed again", len(s.world.of(growing)))
			s.begin(s.list)
		},
	})
}

// begin starts a command. No step is done until it has ended.
func (s *story) begin(command func() error) {
	s.command = make(chan error, 1)
	go func() { s.command <- command() }()
}

// timeToSave reports whether save code now is due: a third of the visits are scheduled and there are many in the
// queue to overtake, or half of them have begun.
func (s *story) timeToSave() bool {
	e, n := s.evidence, s.Repositories
	return len(e.Claims) >= n/3 && e.Queues[expressQueue].Ready >= expressSlots/2 || len(e.Stored) >= (n+s.Archives)/2
}

// save requests to save a repository now that no lister has listed.
func (s *story) save() {
	const name = "wanted.git"
	s.world.addRepository(small, name, wanted, 0)
	s.show.note("save code now is asked for, with %d visits waiting in the queue", s.evidence.Queues[expressQueue].Ready)
	s.begin(func() error {
		err := s.swh("task", "add", "load-git", "--policy", "oneshot", "--priority", "high", "url="+s.world.forges[small].Origin(name))
		s.evidence.Asked = time.Now()
		return err
	})
}

// next does the next step if it is due and the command of the last one has ended.
func (s *story) next() {
	select {
	case err := <-s.command:
		s.command = nil
		s.must(err)
	default:
	}
	if s.command == nil && len(s.steps) > 0 && s.steps[0].due() {
		step := s.steps[0]
		s.steps = s.steps[1:]
		step.do()
	}
}

// saved reports whether save code now is done and its result is in the scheduler's database.
func (s *story) saved() bool {
	return s.evidence.saveRun().Ended != nil && s.visited(wanted)
}

// visited reports whether the scheduler has the results of visits of all origins of a kind.
func (s *story) visited(k kind) bool {
	for _, o := range s.world.of(k) {
		if s.evidence.Known[o.URL].Status == "" {
			return false
		}
	}
	return len(s.world.of(k)) > 0
}

// newerThanVisits reports whether a release now would be newer than all visits of growing origins. Git and package
// lists have dates in whole seconds, and the policies in use ignore changes that are not dated after the last visit.
func (s *story) newerThanVisits(now time.Time) bool {
	released := now.Truncate(time.Second)
	for _, o := range s.world.of(growing) {
		if known := s.evidence.Known[o.URL].Visited; known != nil && !released.After(*known) {
			return false
		}
		for _, v := range s.evidence.Stored[o.URL] {
			if !released.After(v.Date) {
				return false
			}
		}
	}
	return true
}

// celeryFailed restarts a worker that ended by a fault of Celery, as a supervisor does, and reports whether it did.
// Celery 5.7 ends when it reconnects to the broker just after a process of its pool was killed, as at a hard time
// limit.
func (s *story) celeryFailed(worker *testenv.Child) bool {
	if !strings.Contains(worker.Tail(60), "Unrecoverable error: ValueError('file descriptor is None')") || s.restarts == mostRestarts {
		return false
	}
	s.restarts++
	worker.Restart()
	s.show.note("%s: Celery ended it when it connected again, and it is started again", worker.Name)
	return true
}

// mostRestarts bounds the restarts of workers that Celery ends.
const mostRestarts = 3

// watch observes the job and does the due steps, until everything is done or nothing progresses.
func (s *story) watch() {
	var still standstill
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var done time.Time
	for done.IsZero() || time.Since(done) < settleTime {
		err := errors.Join(s.watcher.read(s.ctx), s.evidence.update(s.ctx, s.db, s.archive))
		if err == nil { // otherwise PostgreSQL is unreachable, for some seconds
			s.next()
			s.show.update(s.stages())
			if !s.done() {
				done = time.Time{}
			} else if done.IsZero() {
				done = time.Now()
			}
		}
		if still.over(s.state()) {
			s.must(s.stuck(fmt.Errorf("%w for %s", errStandstill, standstillTime), err))
		}
		for name, child := range s.children {
			if ended, how := child.Ended(); ended {
				if s.celeryFailed(child) {
					continue
				}
				s.Fatalf("%s ended: %v; its log, %s.log, ends:\n%s", name, how, filepath.Join(s.dir, name), child.Tail(15))
			}
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.must(s.stuck(fmt.Errorf("%w (%s)", errTimeout, s.Timeout), err))
		}
	}
}

func (s *story) stages() []stage {
	e := s.evidence
	stages := []stage{{Name: "listed", Done: e.Listed, Total: len(s.world.origins)}}
	for _, forge := range []string{large, small, packages} {
		st := stage{Name: "visited: " + forge}
		for _, o := range s.world.origins {
			if o.Forge == forge && o.Kind != wanted {
				st.Total++
				if e.Known[o.URL].Status != "" {
					st.Done++
				}
			}
		}
		stages = append(stages, st)
	}
	again := stage{Name: "visited again", Total: len(s.world.of(growing))}
	for _, o := range s.world.of(growing) {
		if s.again(o) {
			again.Done++
		}
	}
	save := stage{Name: "save code now", Total: 1}
	if s.saved() {
		save.Done = 1
	}
	stages = append(stages, save)
	if !s.Calm {
		stages = append(stages, stage{Name: "faults", Done: len(e.Faults), Total: len(s.faults())})
	}
	return append(stages, again, stage{Name: "express lane", Done: e.Queues[expressQueue].Ready, Total: expressSlots, Level: true})
}

// again reports whether a growing origin was visited again, with its result in the scheduler's database.
func (s *story) again(o origin) bool {
	visits := s.evidence.Stored[o.URL]
	return s.evidence.full(o.URL) > 1 && s.evidence.Known[o.URL].Snapshot == visits[len(visits)-1].Snapshot
}

// missing lists the stages that are not complete.
func (s *story) missing() (missing []string) {
	for _, stage := range s.stages() {
		if !stage.Level && stage.Done < stage.Total {
			missing = append(missing, fmt.Sprintf("%s %d of %d", stage.Name, stage.Done, stage.Total))
		}
	}
	return missing
}

// done reports whether every stage is complete, nothing is in progress, and the scheduler's state of all origins
// agrees with the storage.
func (s *story) done() bool {
	e := s.evidence
	for _, q := range e.Queues {
		if q.Ready > 0 {
			return false
		}
	}
	return len(s.steps) == 0 && s.command == nil && s.missing() == nil && !e.open() && e.Waiting == 0 && len(e.differences()) == 0
}
