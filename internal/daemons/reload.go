package daemons

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// DefaultReloadPeriod is how often a daemon looks at the configuration's file.
const DefaultReloadPeriod = 5 * time.Second

// Key says which daemons read a section of the configuration, and whether they take up a
// change of it while they run.
type Key struct {
	Daemons []string // by command; none: all
	Live    bool
}

const (
	runnerCommand      = "start-runner"
	firstVisitsCommand = "start-runner-first-visits"
	recurrentCommand   = "schedule-recurrent"
	listenerCommand    = "start-listener"
	journalCommand     = "journal-client"
	rpcCommand         = "rpc-serve"
	dashboardCommand   = "dashboard"
)

var senders = []string{runnerCommand, firstVisitsCommand, recurrentCommand}

// sendersAnd returns the daemons that send, and others.
func sendersAnd(others ...string) []string { return slices.Concat(senders, others) }

// Keys are the sections that not all daemons read, or that they take up while they run. All
// daemons read the others as they start.
var Keys = map[string]Key{
	"celery":          {Daemons: sendersAnd(listenerCommand, dashboardCommand)},
	"rabbitmq":        {Daemons: sendersAnd(listenerCommand, dashboardCommand)},
	"journal":         {Daemons: []string{journalCommand}},
	"rpc_serve":       {Daemons: []string{rpcCommand}},
	"dashboard":       {Daemons: []string{dashboardCommand, rpcCommand}},
	"priority_ageing": {Daemons: sendersAnd(dashboardCommand)},
	"hosters":         {Daemons: sendersAnd(rpcCommand, dashboardCommand)},

	"scheduling_policy":            {Daemons: []string{recurrentCommand, dashboardCommand}, Live: true},
	"no_origins_scheduled_backoff": {Daemons: []string{recurrentCommand}, Live: true},
	"queue_full_backoff":           {Daemons: []string{recurrentCommand}, Live: true},
	"lost_after":                   {Daemons: []string{runnerCommand, dashboardCommand}, Live: true},
	"archive":                      {Daemons: []string{runnerCommand}, Live: true},
	"shares":                       {Daemons: sendersAnd(dashboardCommand), Live: true},
	"lanes":                        {Daemons: sendersAnd(dashboardCommand), Live: true},
	"update_metrics_after":         {Daemons: senders, Live: true},
	"visit_rules":                  {Daemons: []string{journalCommand}, Live: true},
	"failures_keep_date":           {Daemons: []string{journalCommand}, Live: true},
}

// reading is one reading of the configuration.
type reading struct {
	config   *config.Config
	warnings []config.Warning
	err      error
}

// same reports whether two readings found the same file, or the same errors.
func (r reading) same(other reading) bool {
	if r.err != nil || other.err != nil {
		return r.err != nil && other.err != nil && r.err.Error() == other.err.Error()
	}
	return config.SameFile(r.config, other.config)
}

// live is the configuration in force, and what takes up another one.
type live struct {
	config  atomic.Pointer[config.Config]
	hup     chan os.Signal
	prepare []func(ctx context.Context, c *config.Config) error
	take    []func(c *config.Config)

	last, seen reading // the last one, and the last one that was taken up or refused
	waits      bool    // for the database, to prepare
	refused    reading // the last one that was refused although it could be read

	times  *prometheus.GaugeVec
	behind prometheus.Gauge
}

// follow listens to SIGHUP and reports the configuration as metrics, until end is called.
func (o *Options) follow() (end func()) {
	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"daemon": o.name()}, o.Metrics))
	o.live = &live{
		hup: make(chan os.Signal, 1),
		times: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "swh_scheduler_config_timestamp_seconds",
			Help: "Of the configuration in force, in Unix time: when its file was modified, and when it was taken up.",
		}, []string{"event"}),
		behind: f.NewGauge(prometheus.GaugeOpts{
			Name: "swh_scheduler_config_behind",
			Help: "1 if the configuration's file is not in force: it is refused, or keys of it need a restart.",
		}),
	}
	o.live.last = reading{config: o.Config}
	o.live.seen = o.live.last
	o.live.force(o.Config)
	signal.Notify(o.live.hup, syscall.SIGHUP)
	return func() { signal.Stop(o.live.hup) }
}

func (l *live) force(c *config.Config) {
	l.config.Store(c)
	l.times.WithLabelValues("taken_up").SetToCurrentTime()
	if modified := c.Modified(); !modified.IsZero() {
		l.times.WithLabelValues("modified").Set(float64(modified.UnixNano()) / 1e9)
	}
}

// configuration returns the one in force.
func (o *Options) configuration() *config.Config {
	if o.live == nil { // it runs once
		return o.Config
	}
	return o.live.config.Load()
}

// prepare prepares the database for the configuration, and registers the function to prepare
// for each later one, which its error refuses.
func (o *Options) prepare(ctx context.Context, store *db.Store, prepare func(ctx context.Context, c *config.Config) error) error {
	if o.live != nil {
		o.live.prepare = append(o.live.prepare, prepare)
	}
	return o.patiently(ctx, store, func(ctx context.Context) error { return prepare(ctx, o.configuration()) })
}

// onChange registers take to be called with each later configuration.
func (o *Options) onChange(take func(c *config.Config)) {
	if o.live != nil {
		o.live.take = append(o.live.take, take)
	}
}

// reloading returns the component that takes up a changed configuration: on SIGHUP, or when
// two looks in a row find the same new file, as the first one may find half of it.
func (o *Options) reloading() service.Component {
	if o.Config.File != "" {
		o.Log.Info("configuration in force", file(o.Config)...)
	}
	return service.Component{Name: "configuration", Run: func(ctx context.Context) error {
		tick := time.NewTicker(cmp.Or(o.ReloadPeriod, DefaultReloadPeriod))
		defer tick.Stop()
		for {
			asked := false
			select {
			case <-o.live.hup:
				asked = true
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if o.Reload != nil {
				o.look(service.InFlight(ctx), asked)
			}
		}
	}}
}

// file says which file a configuration is from, for the log.
func file(c *config.Config) []any { return []any{"file", c.File, "modified", c.Modified()} }

// look reads the configuration and takes it up if it is new. asked: by SIGHUP, so that the
// log must answer.
func (o *Options) look(ctx context.Context, asked bool) {
	l := o.live
	var now reading
	now.config, now.warnings, now.err = o.Reload()
	settled := now.same(l.last)
	l.last = now
	if !asked && (!settled || now.same(l.seen)) {
		return
	}
	if now.err == nil {
		now.err = o.prepareAll(ctx, now.config)
	}
	if now.err != nil {
		l.behind.Set(1)
	}
	if db.IsAway(now.err) { // the next look tries again
		if !l.waits || asked {
			o.Log.Warn("the changed configuration waits for the database", "error", pytext.OneLine(now.err))
		}
		l.waits = true
		return
	}
	l.waits, l.seen = false, now
	for _, w := range o.told().New(now.warnings) {
		o.Log.Warn(w.String())
	}
	if now.err != nil {
		before := l.refused
		l.refused = now
		if !asked && before.err != nil && before.err.Error() == now.err.Error() && now.config != nil && before.config != nil && config.SameFile(before.config, now.config) {
			return // what refuses it may be mended without another change, as by migrate
		}
		o.Log.Error("the changed configuration is refused; the one before stays in force", append(file(l.config.Load()), "error", pytext.OneLine(now.err))...)
		return
	}
	l.refused = reading{}
	o.takeUp(now.config)
}

func (o *Options) told() *config.Told {
	if o.Told == nil {
		o.Told = new(config.Told)
	}
	return o.Told
}

// prepareAll prepares for a configuration, and refuses one with which the daemon would not start.
func (o *Options) prepareAll(ctx context.Context, c *config.Config) error {
	if slices.Contains(Keys["celery"].Daemons, o.Command) {
		if _, err := c.Broker(); err != nil {
			return err
		}
	}
	for _, prepare := range o.live.prepare {
		if err := prepare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// takeUp puts a configuration in force, and says which keys have changed and which of those
// need a restart.
func (o *Options) takeUp(c *config.Config) {
	changed := o.read(config.Changed(o.configuration(), c), true)
	restart := o.read(config.Changed(o.Config, c), false)
	o.live.force(c)
	for _, take := range o.live.take {
		take(c)
	}
	o.Log.Info("configuration in force", append(file(c), "changed", changed)...)
	if o.live.behind.Set(0); len(restart) > 0 {
		o.live.behind.Set(1)
		o.Log.Warn("changed keys need a restart", "keys", restart)
	}
}

// read returns those of the keys that this daemon reads: the ones that it takes up while it
// runs, or the others.
func (o *Options) read(keys []string, live bool) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		section, _, _ := strings.Cut(key, ".")
		k := Keys[section]
		return k.Live != live || len(k.Daemons) > 0 && !slices.Contains(k.Daemons, o.Command)
	})
}
