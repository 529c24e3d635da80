package process

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/service"
	"swh-scheduler/internal/statsd"
)

// report reports the daemon's health to Prometheus, probes and systemd until stop is called. Signals change the log
// level.
func (p *Process) report(ctx context.Context) (stop func(), err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	endReporting := service.Background(ctx,
		func(ctx context.Context) { service.Systemd(ctx, p.Health, p.Log) },
		func(ctx context.Context) { followLevelSignals(ctx, p.Log, p.Level, signals) })
	if p.MetricsAddr == "" {
		return endReporting, nil
	}
	daemon := p.name()
	p.Metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(daemon, p.Version), p.Health.Collector(daemon))
	registerPool(p.Metrics, daemon, p.Store.Pool().Stat)
	stopServer, err := service.MetricsServer{
		Addr: p.MetricsAddr, Gatherer: p.Metrics, Health: p.Health, Log: p.Log,
		Hosts: p.Config.Metrics.Hosts, Pprof: p.Config.Metrics.Pprof, Token: string(p.Config.Metrics.PprofToken),
	}.Start(ctx)
	if err != nil {
		endReporting()
		return nil, err
	}
	return func() {
		endReporting()
		stopServer()
	}, nil
}

// sendCounters sends the process's counters to StatsD, if that is configured, until stop is called, which sends the
// last ones.
func sendCounters(ctx context.Context, o Options) (stop func(), err error) {
	counters, err := statsd.FromEnvironment(o.Metrics, o.Log)
	if err != nil || counters == nil {
		return func() {}, err
	}
	return service.Background(context.WithoutCancel(ctx), counters.Run), nil
}

func buildInfo(daemon, version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "swh_scheduler_build_info", Help: "1, with the daemon's name, and the version of this program and of Go.",
		ConstLabels: prometheus.Labels{"daemon": daemon, "version": version, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

// registerPool registers the metrics of a daemon's connections to the database.
func registerPool(reg prometheus.Registerer, daemon string, stat func() *pgxpool.Stat) {
	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"daemon": daemon}, reg))
	gauge := func(name, help string, value func(*pgxpool.Stat) int32) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "swh_scheduler_database_" + name, Help: help}, func() float64 { return float64(value(stat())) })
	}
	gauge("connections_used", "Connections to the database that are in use.", (*pgxpool.Stat).AcquiredConns)
	gauge("connections_limit", "How many connections to the database the daemon may have.", (*pgxpool.Stat).MaxConns)
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "swh_scheduler_database_wait_seconds_total", Help: "Total time spent waiting for a connection because all were in use.",
	}, func() float64 { return stat().EmptyAcquireWaitTime().Seconds() })
}

// followLevelSignals sets the log level to debug on SIGUSR1, and back on SIGUSR2.
func followLevelSignals(ctx context.Context, log *slog.Logger, of *slog.LevelVar, signals chan os.Signal) {
	defer signal.Stop(signals)
	configured := of.Level()
	for {
		select {
		case s := <-signals:
			level := configured
			if s == syscall.SIGUSR1 {
				level = slog.LevelDebug
			}
			of.Set(level)
			log.Log(ctx, max(level, slog.LevelInfo), "log level changed", "level", level, "signal", s.String())
		case <-ctx.Done():
			return
		}
	}
}
