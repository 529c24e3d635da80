package daemons

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/migrate"
)

// RPC serves the RPC server: the calls, the door and, if there is one, a site.
type RPC struct {
	process.Options
	Address  string  // HOST:PORT
	LogCalls bool    // at level debug
	NewSite  NewSite // nil: none
	// Reread reads the configuration again, for its clients; it returns nil while the file is unchanged.
	Reread func() (*config.Config, error)
}

// Run runs it until ctx ends.
func (r *RPC) Run(ctx context.Context) error {
	c := r.Config.RPCServe
	o := rpc.Options{
		Address: r.Address, Log: r.Log, Registry: r.Metrics, LogCalls: r.LogCalls, MaxBody: int64(c.MaxBodySize),
		Credentials: credentialsOf(c), Clients: c.Clients, Hints: r.Config.Hints.WebhookSources(),
		Proxies: r.Config.Dashboard.Proxy.Addresses, Hosts: service.HostsOf(r.Address, r.Config.Metrics.Hosts),
		DoorLimits: door.Limits{Connections: c.Door.MaxConnections, PerClient: c.Door.MaxPerClient, PerAddress: c.Door.MaxPerAddress},
	}
	var err error
	if o.TLS, err = serverTLS(r.Options, c.TLSCertificate, c.TLSKey); err != nil {
		return err
	}
	if c.ClientCA != "" {
		if o.ClientCA, err = rpc.NewAuthority(r.Config.Resolve(c.ClientCA), r.Log); err != nil {
			return err
		}
	}
	if r.Reread != nil {
		o.Reread = func() (rpc.Credentials, []config.Client, bool, error) {
			now, err := r.Reread()
			if now == nil || err != nil {
				return rpc.Credentials{}, nil, false, err
			}
			return credentialsOf(now.RPCServe), now.RPCServe.Clients, true, nil
		}
	}
	return process.Run(ctx, r.Options, func(ctx context.Context, p *process.Process) ([]service.Component, error) {
		o.Store, o.Health = p.Store, p.Health
		if o.Door, err = migrate.NewDoor(p.Store.DB, string(c.Door.DB)); err != nil {
			return nil, err
		}
		closeSite := func() error { return nil }
		if r.NewSite != nil {
			if o.Site, closeSite, err = r.NewSite(ctx, p.Store, p.Metrics); err != nil {
				return nil, err
			}
		}
		server, err := rpc.Listen(ctx, o)
		if err != nil {
			return nil, errors.Join(err, closeSite())
		}
		if !c.Open {
			p.Open = server.Open
		}
		openGauge(r.Metrics, c.Open, server.Open)
		serve := func(ctx context.Context) error { return errors.Join(server.Run(ctx), closeSite()) }
		return []service.Component{{Name: "RPC server", Run: serve}, keeper(p, maintenance.Gone(p.Store, p.Config.GoneOrigins, p.Log), maintenance.Hints(p.Store))}, nil
	})
}

func credentialsOf(c config.RPCServe) rpc.Credentials {
	return rpc.Credentials{Token: string(c.Token), Username: c.Username, Password: string(c.Password)}
}

// openGauge registers the metric of a server without credentials. meant is the value of open in its file.
func openGauge(metrics prometheus.Registerer, meant bool, open func() string) {
	promauto.With(metrics).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "swh_scheduler_rpc_unauthenticated",
		Help: "1 if the RPC server listens beyond loopback without credentials for calls, and its configuration has no open: true.",
	}, func() float64 {
		if !meant && open() != "" {
			return 1
		}
		return 0
	})
}

// serverTLS returns the TLS of a server, from two PEM files that the configuration names; nil without them.
func serverTLS(o process.Options, certificate, key string) (*tls.Config, error) {
	if certificate == "" {
		return nil, nil
	}
	return rpc.TLS(o.Config.Resolve(certificate), o.Config.Resolve(key), o.Log)
}
