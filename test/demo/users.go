package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"swh-scheduler/internal/testenv"
)

// Every part of the demo is a user of its own, with only the rights in docs/how-to/secure.md: at RabbitMQ, and at the
// database, as a role of migrate --grants, or at the RPC server, as a client with the role daemon for one daemon.

// byDoor are the daemons that use the database through the RPC server's door, as in production; the others have its
// address.
var byDoor = map[string]bool{"start-listener": true, "journal-client": true, "start-runner": true}

// atBroker are the rights of daemons at the broker: patterns of queues to configure, write and read.
var atBroker = map[string][3]string{
	"start-runner":       sending,
	"schedule-recurrent": sending,
	"start-listener":     {`^celeryev(\.listener)?$`, `^celeryev\.listener$`, `^celeryev(\.listener)?$`},
	"dashboard":          {`^([^.]+\.)?(reply\.)?celery\.pidbox$`, `^([^.]+\.reply\.)?celery\.pidbox$`, `^([^.]+\.)?reply\.celery\.pidbox$`},
}

var sending = [3]string{`^((express|save_code_now):)?swh\.`, `^(amq\.default)?(((express|save_code_now):)?swh\..*)?$`, `^((express|save_code_now):)?swh\.`}

// client is a client of the RPC server.
type client struct{ name, rights, token string }

func newClient(name, rights string) client { return client{name, rights, rand.Text()} }

// entry returns the client's entry in rpc_serve.clients of a configuration.
func (c client) entry() string {
	return fmt.Sprintf("  - {name: %s, %s, token_sha256: %x}\n", c.name, c.rights, sha256.Sum256([]byte(c.token)))
}

// at returns the URL of the server for the client.
func (c client) at(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // the URL is the demo's own
	}
	u.User = url.UserPassword(c.name, c.token)
	return u.String()
}

// plain returns the daemon's command without options.
func (d daemon) plain() string { return strings.Fields(d.command)[0] }

// configure writes the configurations of the daemons, once the database has their roles. Each has a user of its own.
func (s *story) configure(clients []client) {
	entries := ""
	for _, c := range clients {
		entries += c.entry()
	}
	s.configs = map[string]string{}
	for _, d := range append([]daemon{dashboardDaemon}, daemons...) {
		mine := s.servers
		if rights, ok := atBroker[d.plain()]; ok {
			password := rand.Text()
			user := s.broker.User(s.program, password)
			s.broker.Permit(s.program, user, rights[0], rights[1], rights[2])
			mine.throughWay = withUser(s.throughWay, user, password)
			mine.broker.ManagementURL = withUser(s.broker.ManagementURL, user, password)
		}
		scheduler := ""
		if byDoor[d.name] {
			c := newClient(d.name, "roles: [daemon], daemons: ["+d.plain()+"]")
			entries += c.entry()
			scheduler = fmt.Sprintf("{cls: remote, url: %q}", c.at(s.serverURL()))
		} else {
			as, ok := testenv.AsDaemon(s.program, s.servers.scheduler, d.plain())
			if !ok {
				s.must(errors.New("the database is not migrated"))
			}
			scheduler = fmt.Sprintf("{cls: postgresql, db: %q}", as)
		}
		s.configs[d.name] = s.write(d.name+".yml", mine.configuration(scheduler))
	}
	s.configs[rpcDaemon.name] = s.write(rpcDaemon.name+".yml", string(testenv.Read(s.program, s.configs[rpcDaemon.name]))+"rpc_serve:\n  clients:\n"+entries)
}

func (s *story) serverURL() string { return fmt.Sprintf("http://127.0.0.1:%d/", s.server) }

func withUser(address, user, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it was parsed before
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// refusal matches log lines about missing rights.
var refusal = regexp.MustCompile(`permission denied|lacks rights|ACCESS_REFUSED|call denied|Forbidden|AUTHORIZATION_FAILED`)

// refusals returns the lines about missing rights in the logs of a run.
func refusals(dir string) (lines []string, err error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		text, readErr := os.ReadFile(log)
		err = errors.Join(err, readErr)
		for line := range strings.Lines(string(text)) {
			if refusal.MatchString(line) {
				lines = append(lines, filepath.Base(log)+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines, err
}
