package settings

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
)

// exposed returns what the configuration exposes to others, in words: secrets in files that every user of this host
// may read, and connections to databases on which somebody in between could pass for the server.
func exposed(a *command.App) []string {
	var warnings []string
	for _, path := range a.Config.SecretFiles() {
		if worldReadable(path) {
			warnings = append(warnings, fmt.Sprintf("%s holds secrets, and every user of this host may read it: chmod o= %[1]s", path))
		}
	}
	dsns := map[string]config.Secret{"database.direct": a.Config.Database.Direct, "database.replica": a.Config.Database.Replica}
	if a.Config.Scheduler.Cls == config.Postgres {
		dsns["scheduler.db"], dsns["rpc_serve.door.db"] = a.Config.Scheduler.DB, a.Config.RPCServe.Door.DB
	}
	for _, key := range []string{"scheduler.db", "database.direct", "database.replica", "rpc_serve.door.db"} {
		if hosts := unverified(string(dsns[key])); len(hosts) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s reaches %s without sslmode=verify-full: somebody in between could read what is sent, or pass for the database", key, strings.Join(hosts, ", ")))
		}
	}
	return warnings
}

// worldReadable reports whether every user of this host may read a file: by its mode, and that of the directories
// that lead to it.
func worldReadable(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o004 == 0 {
		return false
	}
	for directory := filepath.Dir(path); ; directory = filepath.Dir(directory) {
		if info, err := os.Stat(directory); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if directory == filepath.Dir(directory) {
			return true
		}
	}
}

// unverified returns the hosts of a DSN, but for this one, whose certificate and name are not both checked. A
// DSN that can't be read has none: other checks say so.
func unverified(dsn string) (hosts []string) {
	if dsn == "" {
		return nil
	}
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil
	}
	for _, way := range append([]*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
		address, err := netip.ParseAddr(way.Host)
		here := way.Host == "localhost" || strings.HasPrefix(way.Host, "/") || strings.HasPrefix(way.Host, "@") || err == nil && address.Unmap().IsLoopback()
		if !here && (way.TLSConfig == nil || way.TLSConfig.InsecureSkipVerify) && !slices.Contains(hosts, way.Host) {
			hosts = append(hosts, way.Host)
		}
	}
	return hosts
}
