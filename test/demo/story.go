package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"swh-scheduler/internal/archive"
	"swh-scheduler/internal/services"
)

const (
	lookInterval = 200 * time.Millisecond
	// stopBound is the daemons' own bound on how long they take to stop.
	stopBound = 35 * time.Second
	// settleTime is how long the demo looks on once all is done, for work that
	// nobody asked for. It is longer than the daemons' periods, and than
	// RabbitMQ's interval between two counts of published messages.
	settleTime = 6 * time.Second
)

// daemon is one of ours: the name of its log, and its command.
type daemon struct{ name, command string }

const (
	recurrentDaemon = "schedule-recurrent"
	rpcDaemon       = "rpc-serve"
)

var daemons = []daemon{
	{rpcDaemon, "rpc-serve --host 127.0.0.1 --port %d"},
	{"start-listener", "start-listener"},
	{"journal-client", "journal-client"},
	{"start-runner", "start-runner --period 1"},
	{"start-runner-with-priority", "start-runner --period 1 --with-priority"},
	{recurrentDaemon, "schedule-recurrent"},
}

// senders are those of them that send messages.
var senders = []string{"start-runner", "start-runner-with-priority", recurrentDaemon}

// errTimeout is the cause of a context ended by the demo's own time-out.
var errTimeout = errors.New("not done in time")

// story is one run of the main job.
type story struct {
	options
	dir       string // of this run
	resources *resources
	processes *processes
	show      *progress
	world     *world
	broker    *broker
	db        *pgxpool.Pool // of the scheduler
	storage   *pgx.Conn

	config   string   // file of our daemons
	remote   string   // file of those who reach the scheduler by its RPC server
	port     int      // of that
	metrics  []string // addresses of the daemons' metrics; none unless all is left running
	evidence *evidence
	steps    []step     // still to be done, in this order
	command  chan error // of a command that a step has started, and that hasn't ended; or nil
	lastLook error
}

// step is what the world around the scheduler does when its time has come.
type step struct {
	due func() bool
	do  func(context.Context) error
}

// prepare makes what is to be archived, and starts what archives it, but for the daemon
// that schedules visits: it begins when both forges are listed, so that they have to share.
func (s *story) prepare(ctx context.Context) (err error) {
	ports, err := services.FreePorts(1 + len(daemons))
	if err != nil {
		return err
	}
	s.port = ports[0]
	if s.Keeper != nil {
		for _, port := range ports[1:] {
			s.metrics = append(s.metrics, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}
	server := fmt.Sprintf("http://127.0.0.1:%d/", s.port)
	r := s.resources
	if s.config, err = s.writeFile("scheduler.yml", r.configuration()); err != nil {
		return err
	}
	if s.remote, err = s.writeFile("remote.yml", fmt.Sprintf("scheduler: {cls: remote, url: %q}\n", server)); err != nil {
		return err
	}
	objects := filepath.Join(s.dir, "objects")
	if err := os.Mkdir(objects, 0o755); err != nil {
		return err
	}
	storage := archive.Storage{DSN: r.storage.dsn, Objects: objects, Brokers: r.kafka, Prefix: r.topicPrefix}
	for _, w := range []struct {
		name, config string
		processes    int
	}{
		{"lister", archive.Lister(r.brokerURL, server), 2},
		{"express", storage.Loader(r.brokerURL, expressQueue), 3},
		{"slow", storage.Loader(r.brokerURL, slowQueue, archivesQueue), 3},
		{"save-code-now", storage.Loader(r.brokerURL, saveQueue), 1},
	} {
		config, err := s.writeFile("worker-"+w.name+".json", w.config)
		if err != nil {
			return err
		}
		argv := append([]string{"env", "SWH_CONFIG_FILENAME=" + config, r.python}, archive.Worker(w.name, w.processes)...)
		if err := s.processes.start("worker-"+w.name, argv...); err != nil {
			return err
		}
	}
	if _, err := s.processes.run(ctx, s.Scheduler, "-C", s.config, "migrate"); err != nil {
		return err
	}
	for _, d := range daemons {
		if d.name != recurrentDaemon {
			if err := s.startDaemon(d); err != nil {
				return err
			}
		}
	}
	preparing, ctx := errgroup.WithContext(ctx)
	preparing.Go(func() error {
		for _, argv := range storage.Init(r.python) {
			if _, err := s.processes.run(ctx, argv...); err != nil {
				return err
			}
		}
		return nil
	})
	preparing.Go(func() (err error) {
		s.world, err = openWorld(filepath.Join(s.dir, "world"), s.Repositories, s.Archives)
		return err
	})
	preparing.Go(func() error {
		_, err := s.processes.run(ctx, s.Scheduler, "-C", s.config, "task-type", "add", fmt.Sprintf("--max-queue-length=%d", archivesLimit),
			"load-tar", archivesQueue, "Load the releases of a package")
		if err == nil {
			err = s.swh(ctx, "task-type", "register", "-p", "lister.gitweb", "-p", "lister.gnu", "-p", "loader.git")
		}
		return err
	})
	if err := preparing.Wait(); err != nil {
		return err
	}
	s.show.note("started the archive's lister, loaders and storage, two forges with %d git repositories,\n%9sa server of %d packages, and %d of our daemons",
		s.Repositories, "", s.Archives, len(daemons)-1)
	s.plan()
	return nil
}

func (s *story) startDaemon(d daemon) error {
	command := d.command
	if d.name == rpcDaemon {
		command = fmt.Sprintf(command, s.port)
	}
	argv := append([]string{s.Scheduler, "-C", s.config}, strings.Fields(command)...)
	if s.metrics != nil {
		argv = append(argv, "--metrics-addr", s.metrics[slices.Index(daemons, d)])
	}
	return s.processes.start(d.name, argv...)
}

// swh runs a command of the Python scheduler's own command line, by the RPC server.
func (s *story) swh(ctx context.Context, args ...string) error {
	argv := append([]string{"env", "SWH_CONFIG_FILENAME=" + s.remote, filepath.Join(filepath.Dir(s.resources.python), "swh"), "scheduler"}, args...)
	for {
		_, err := s.processes.run(ctx, argv...)
		// The server may not be up yet.
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "Connection refused") {
			return err
		}
	}
}

// list schedules listings of the forges and of the packages.
func (s *story) list(ctx context.Context) error {
	var text strings.Builder
	out := csv.NewWriter(&text)
	for _, l := range [][3]string{
		{"list-gitweb", s.world.forges[large].URL, large}, {"list-gitweb", s.world.forges[small].URL, small},
		{"list-gnu-full", s.world.packages.URL, packages},
	} {
		arguments, err := json.Marshal(map[string]string{"url": l[1], "instance": l[2]})
		if err != nil {
			return err
		}
		_ = out.Write([]string{l[0], string(arguments), "oneshot"}) // into memory
	}
	out.Flush()
	file, err := s.writeFile("listings.csv", text.String())
	if err != nil {
		return err
	}
	return s.swh(ctx, "task", "schedule", "-c", "type", "-c", "kwargs", "-c", "policy", file)
}

// plan says what happens in the world, and when.
func (s *story) plan() {
	e := s.evidence
	s.steps = []step{{
		func() bool { return e.Last.Listed == len(s.world.origins) && !e.open() },
		func(context.Context) error {
			if err := s.world.vanish(); err != nil {
				return err
			}
			s.show.note("%d origins are listed; %d vanish; visits are scheduled from now on", e.Last.Listed, len(s.world.of(vanishing)))
			for _, d := range daemons {
				if d.name == recurrentDaemon {
					return s.startDaemon(d)
				}
			}
			return nil
		},
	}, {s.timeToSave, s.save}}
	for _, f := range s.faults() {
		s.steps = append(s.steps, step{func() bool { return s.timeFor(f) }, func(ctx context.Context) error { return s.fall(ctx, f) }})
	}
	var grown time.Time
	s.steps = append(s.steps, step{
		func() bool { return s.visited(growing) && s.saved() },
		func(context.Context) error {
			grown = time.Now()
			return s.world.grow()
		},
	}, step{
		// gitweb doesn't say of the last two seconds what changed in them.
		func() bool { return time.Since(grown) > 4*time.Second },
		func(ctx context.Context) error {
			s.show.note("%d origins have new commits, or a new release; all are listed again", len(s.world.of(growing)))
			s.command = make(chan error, 1)
			go func() { s.command <- s.list(ctx) }()
			return nil
		},
	})
}

// timeToSave is when there is much in the queue to overtake, once a third of the
// visits are scheduled; at the latest when half of them are done.
func (s *story) timeToSave() bool {
	n := s.Repositories
	return len(s.evidence.Claims) >= n/3 && s.broker.look()[expressQueue].Ready >= expressSlots/2 ||
		len(s.evidence.First) >= (n+s.Archives)/2
}

// save asks for a repository to be saved now that no lister has seen.
func (s *story) save(ctx context.Context) error {
	const name = "wanted.git"
	if err := s.world.addRepository(small, name, wanted, 0); err != nil {
		return err
	}
	url := s.world.forges[small].Origin(name)
	s.show.note("save code now is asked for, with %d visits waiting in the queue", s.broker.look()[expressQueue].Ready)
	s.command = make(chan error, 1)
	go func() {
		err := s.swh(ctx, "task", "add", "load-git", "--policy", "oneshot", "--priority", "high", "url="+url)
		s.evidence.Asked = time.Now()
		s.command <- err
	}()
	return nil
}

// next does the next step if it is due, and the command of the one before has ended.
func (s *story) next(ctx context.Context) error {
	select {
	case err := <-s.command:
		s.command = nil
		return err
	default:
	}
	if s.command != nil || len(s.steps) == 0 || !s.steps[0].due() {
		return nil
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step.do(ctx)
}

// saved reports whether what was to be saved now is, and the scheduler knows it.
func (s *story) saved() bool {
	run, ok := s.evidence.saveRun()
	return ok && !run.open() && s.visited(wanted)
}

// visited reports whether there is a result of all origins of a kind.
func (s *story) visited(k kind) bool {
	for _, o := range s.world.of(k) {
		if _, ok := s.evidence.First[o.URL]; !ok {
			return false
		}
	}
	return len(s.world.of(k)) > 0
}

// watch follows the job, and does what is due, until everything is done.
func (s *story) watch(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	var done time.Time
	for {
		v, err := look(ctx, s.db)
		if s.lastLook = err; err == nil { // otherwise PostgreSQL is away, for some seconds
			s.evidence.add(v)
			if err := s.next(ctx); err != nil {
				return err
			}
			s.show.update(s.stages())
			complete, err := s.done(ctx)
			switch {
			case err != nil:
				return err
			case !complete:
				done = time.Time{}
			case done.IsZero():
				done = time.Now()
			case time.Since(done) >= settleTime:
				return nil
			}
		}
		select {
		case <-tick.C:
		case child := <-s.processes.ended:
			return fmt.Errorf("%s ended: %v; its log, %s, ends:\n%s", child.name, child.err, child.log, child.lastLines(15))
		case <-ctx.Done():
			return s.stalled(context.Cause(ctx))
		}
	}
}

func (s *story) stages() []stage {
	e := s.evidence
	stages := []stage{{Name: "listed", Done: e.Last.Listed, Total: len(s.world.origins)}}
	for _, forge := range []string{large, small, packages} {
		st := stage{Name: "visited: " + forge}
		for _, o := range s.world.origins {
			if o.Forge == forge && o.Kind != wanted {
				st.Total++
				if _, ok := e.First[o.URL]; ok {
					st.Done++
				}
			}
		}
		stages = append(stages, st)
	}
	again := stage{Name: "visited again", Total: len(s.world.of(growing))}
	for _, o := range s.world.of(growing) {
		if first, ok := e.First[o.URL]; ok && e.Last.Known[o.URL].Snapshot != first {
			again.Done++
		}
	}
	save, faults := stage{Name: "save code now", Total: 1}, stage{Name: "faults", Done: len(e.Faults), Total: len(s.faults())}
	if s.saved() {
		save.Done = 1
	}
	return append(stages, save, faults, again,
		stage{Name: "express lane", Done: s.broker.look()[expressQueue].Ready, Total: expressSlots, Level: true})
}

// missing names the stages that are not complete.
func (s *story) missing() (missing []string) {
	for _, stage := range s.stages() {
		if !stage.Level && stage.Done < stage.Total {
			missing = append(missing, fmt.Sprintf("%s %d of %d", stage.Name, stage.Done, stage.Total))
		}
	}
	return missing
}

// done reports whether every stage is complete, nothing is under way, and the scheduler knows
// of all origins what the storage has.
func (s *story) done(ctx context.Context) (bool, error) {
	e := s.evidence
	if len(s.steps) > 0 || s.command != nil || s.missing() != nil || e.open() || e.Last.Waiting > 0 {
		return false, nil
	}
	for _, q := range s.broker.look() {
		if q.Ready > 0 {
			return false, nil
		}
	}
	var err error
	e.Stored, err = archive.Visits(ctx, s.storage)
	return len(e.differences()) == 0, err
}

// stalled adds to a time-out which stages were not complete.
func (s *story) stalled(cause error) error {
	if !errors.Is(cause, errTimeout) {
		return cause
	}
	missing := s.missing()
	if missing == nil {
		missing = append(s.evidence.differences(), fmt.Sprintf("%d messages not sent", s.evidence.Last.Waiting))
	}
	return errors.Join(fmt.Errorf("%w (%s): %s", cause, s.Timeout, strings.Join(missing, ", ")), s.lastLook)
}

// collect gathers the rest of the evidence, all but how the daemons stop.
func (s *story) collect(ctx context.Context) (err error) {
	e := s.evidence
	e.Queues, e.Expected = s.broker.look(), len(s.faults())
	for _, o := range s.world.origins {
		x := expected{origin: o}
		if x.Tip, x.Status, err = s.world.tip(o); err != nil {
			return err
		}
		e.Origins = append(e.Origins, x)
	}
	e.Executions, err = readExecutions(s.dir)
	return err
}
