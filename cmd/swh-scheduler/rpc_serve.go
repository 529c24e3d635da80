package main

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/sql"
)

func newRPCServe(a *app) *cobra.Command {
	var host string
	var port uint16
	cmd := &cobra.Command{
		Use:   "rpc-serve [OPTIONS]",
		Short: "Starts a swh-scheduler API HTTP server",
		Long: `Starts a swh-scheduler API HTTP server, through which listers, the web API and
other components use the scheduler. The rpc_serve section of the configuration
can ask for TLS and credentials.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "host", "0.0.0.0", "host to listen on; 0.0.0.0 is all network interfaces")
	flags.Uint16Var(&port, "port", 5008, "port to listen on; 0 takes a free one")
	flags.Bool("debug", false, "accepted for the Python command's sake; see --log-level")
	flags.Bool("nodebug", false, "accepted for the Python command's sake")
	peerName(flags, "nodebug", "")
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		c := a.config.RPCServe
		o := rpc.Options{
			Address: net.JoinHostPort(host, strconv.Itoa(int(port))), Log: a.log, Registry: a.metrics, MaxBody: int64(c.MaxBodySize),
			Credentials: rpc.Credentials{Token: string(c.Token), Username: c.Username, Password: string(c.Password)},
		}
		if c.TLSCertificate != "" {
			certificate, err := tls.LoadX509KeyPair(c.TLSCertificate, c.TLSKey)
			if err != nil {
				return err
			}
			o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		}
		return a.runDaemon(cmd, func(ctx context.Context, store *sql.Store) ([]daemon.Component, error) {
			o.Store = store
			server, err := rpc.Listen(ctx, o)
			if err != nil {
				return nil, err
			}
			return []daemon.Component{{Name: "RPC server", Run: server.Run}}, nil
		})
	})
	return cmd
}
