package start

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/dashboard"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
)

func NewDashboard(a *command.App) *cobra.Command {
	var host string
	var port uint16
	cmd := &cobra.Command{
		Use:   "dashboard [OPTIONS]",
		Short: "Shows the scheduler in a browser",
		Long: `Serves pages that show the state of the scheduler, and from which operators change it. The
dashboard section of the configuration names the operators. Without it, everybody who reaches
the port may read, and nobody may change anything. With dashboard.in_rpc_serve, rpc-serve shows
the same pages.`,
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "host", "127.0.0.1", "`HOST` to listen on; 0.0.0.0 is all network interfaces")
	flags.Uint16Var(&port, "port", 5009, "`PORT` to listen on; 0 takes a free one")
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		if c := a.Config; c.Scheduler.Cls == config.Remote && c.Dashboard.HasLogins() {
			return c.Wrong("dashboard", errors.New("needs a database of its own (scheduler.cls: postgresql): a connection through an RPC server may not read sessions; or leave out users and proxy"))
		}
		d := daemons.Dashboard{
			Options: options(a, cmd), Address: net.JoinHostPort(host, strconv.Itoa(int(port))), NewSite: newSite(a, cmd, "", func() bool { return false }),
		}
		return d.Run(cmd.Context())
	})
	return cmd
}

// newSite makes a dashboard below the path base. While closed returns true, only the dashboard's own users may read
// it.
func newSite(a *command.App, cmd *cobra.Command, base string, closed func() bool) daemons.NewSite {
	return func(ctx context.Context, store *db.Store, metrics prometheus.Registerer) (rpc.Site, func() error, error) {
		reads, err := a.OpenPages(ctx, cmd, dashboard.Timeout)
		if err != nil {
			return nil, nil, err
		}
		c := a.Config.Dashboard
		if (c.RequireLogin || closed()) && !c.HasLogins() {
			a.Log.Warn("nobody can read the dashboard: name its users in dashboard.users; the credentials of rpc_serve don't open it")
		}
		o := dashboard.Options{
			Reads: reads, Acts: store, Config: a.Config, Log: a.Log, Metrics: metrics, Version: a.Version, Base: base,
			Access: dashboard.Access{Hosts: service.HostsOf(net.JoinHostPort(cmd.Flag("host").Value.String(), ""), c.Hosts), RequireLogin: c.RequireLogin, Closed: closed, Users: c.Users, Proxy: c.Proxy},
		}
		closeBroker := func() error { return nil }
		if broker, err := a.Config.Broker(); err == nil {
			inspector := a.Inspector(broker, cmd.CommandPath())
			o.Broker, closeBroker = inspector, inspector.Close
			control := celery.NewControl(broker, celery.ControlOptions{ConnectionOptions: celery.ConnectionOptions{Name: cmd.CommandPath()}})
			o.Revoke = func(ctx context.Context, ids []string, terminate bool) error {
				answers, err := control.Revoke(ctx, celery.Destination{}, ids, celery.Revocation{Terminate: terminate})
				switch {
				case err == nil && len(answers) == 0:
					return command.ErrNoReply
				case err != nil && len(answers) > 0: // the request reached the workers that answered
					a.Log.Warn("not all workers' answers could be read", "error", err)
					return nil
				}
				return err
			}
		}
		end := func() error {
			reads.Close()
			return closeBroker()
		}
		site, err := dashboard.New(o)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		stop := service.Background(ctx, site.Work)
		return site, func() error {
			stop()
			return end()
		}, nil
	}
}
