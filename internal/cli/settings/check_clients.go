package settings

import (
	"errors"
	"strings"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc"
)

// errOpen is the error of a file with which rpc-serve would accept calls without credentials by default.
var errOpen = errors.New("everybody who reaches the port of rpc-serve can read and write the scheduler: give it clients, or write " +
	"rpc_serve: {open: true} if that is meant, or if no rpc-serve runs with this file")

// checkClients checks that rpc-serve asks for credentials, or that the file allows calls without, and that the files
// of clients' certificates can be read.
func checkClients(a *command.App) (string, error) {
	c := a.Config.RPCServe
	if c.TLSCertificate != "" {
		if _, err := rpc.TLS(a.Config.Resolve(c.TLSCertificate), a.Config.Resolve(c.TLSKey), a.Log); err != nil {
			return "", err
		}
	}
	if c.ClientCA != "" {
		if _, err := rpc.NewAuthority(a.Config.Resolve(c.ClientCA), a.Log); err != nil {
			return "", err
		}
	}
	switch {
	case c.Open:
		return "open: everybody who reaches its port may make all calls", nil
	case !c.RequiresCredentials():
		return "", errOpen
	}
	var found []string
	if len(c.Clients) > 0 {
		found = append(found, model.Count(len(c.Clients), "client", "clients"))
	}
	if c.Token != "" || c.Username != "" {
		found = append(found, "a credential that may make all calls")
	}
	if c.TLSCertificate == "" {
		found = append(found, "without TLS")
	}
	return strings.Join(found, ", "), nil
}
