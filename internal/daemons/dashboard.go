package daemons

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/process"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

// NewSite makes a site that shows a database. end closes its resources; the site must not be used after end.
type NewSite func(ctx context.Context, store *db.Store, metrics prometheus.Registerer) (site rpc.Site, end func() error, err error)

// Dashboard serves a site, and nothing else. It does no maintenance.
type Dashboard struct {
	process.Options
	Address string // HOST:PORT
	NewSite NewSite
}

// Run runs it until ctx ends.
func (d *Dashboard) Run(ctx context.Context) error {
	encryption, err := serverTLS(d.Options, d.Config.Dashboard.TLSCertificate, d.Config.Dashboard.TLSKey)
	if err != nil {
		return err
	}
	return process.Run(ctx, d.Options, func(ctx context.Context, p *process.Process) ([]service.Component, error) {
		site, end, err := d.NewSite(ctx, p.Store, p.Metrics)
		if err != nil {
			return nil, err
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen on %s: %w", d.Address, err), end())
		}
		d.Log.Info("listening", "address", listener.Addr().String(), "tls", encryption != nil)
		if encryption != nil {
			listener = tls.NewListener(listener, encryption)
		}
		server := &http.Server{
			Handler: site, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug), ConnState: service.BoundConnections(1024),
		}
		server.RegisterOnShutdown(site.Stop)
		serve := func(ctx context.Context) error { return errors.Join(service.Serve(ctx, server, listener), end()) }
		return []service.Component{{Name: "dashboard", Run: serve}}, nil
	})
}
