package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"swh-scheduler/internal/cli"
	"swh-scheduler/internal/testenv"
)

// ownFile in its environment makes a daemon read the test's own file, whatever SWH_TEST_ROAD is.
const ownFile = "SWH_TEST_OWN_FILE=yes"

var daemonCommands = []string{"start-runner", "start-runner-first-visits", "start-listener", "schedule-recurrent", "journal-client"}

// schedulerSection matches a configuration's section with a database.
var schedulerSection = regexp.MustCompile(`scheduler: \{cls: (?:postgresql|local), db: "([^"]+)"\}`)

// onRoad returns the arguments for this run's value of SWH_TEST_ROAD. With the door, a daemon's configuration names an
// RPC server on its database, unless that database is away. With roles, a program's user has only the rights of its
// daemon.
func onRoad(t *testing.T, args []string) []string {
	t.Helper()
	i := slices.Index(args, "-C")
	if testenv.ByRoles(t) && i >= 0 && i+1 < len(args) {
		return withItsRole(t, args, i+1)
	}
	if !testenv.ByDoor(t) || i < 0 || !slices.ContainsFunc(args, func(a string) bool { return slices.Contains(daemonCommands, a) }) {
		return args
	}
	text, err := os.ReadFile(args[i+1])
	if err != nil {
		return args // the test itself is about the door
	}
	section := schedulerSection.FindStringSubmatch(string(text))
	if section == nil {
		return args
	}
	url, ok := doors.server(t, section[1], args[i+1])
	if !ok {
		return args
	}
	args = slices.Clone(args)
	args[i+1] = configFile(t, strings.Replace(string(text), section[0], fmt.Sprintf("scheduler: {cls: remote, url: %q}", url), 1))
	return args
}

// withItsRole returns a daemon's arguments with another file at the given position.
func withItsRole(t *testing.T, args []string, file int) []string {
	t.Helper()
	at := slices.IndexFunc(args, func(a string) bool { return slices.Contains(roleCommands, a) })
	text, err := os.ReadFile(args[file])
	if at < 0 || err != nil {
		return args
	}
	section := schedulerSection.FindStringSubmatch(string(text))
	if section == nil || strings.Contains(string(text), "direct:") { // a pooler has a fixed list of users
		return args
	}
	as, ok := testenv.AsDaemon(t, section[1], args[at])
	if !ok {
		return args
	}
	args = slices.Clone(args)
	args[file] = configFile(t, strings.Replace(string(text), section[1], as, 1))
	return args
}

// roleCommands have roles of their own.
var roleCommands = append(slices.Clone(daemonCommands), "rpc-serve", "dashboard", "update-metrics")

// doors are the RPC servers with open doors.
var doors = servers{users: make(map[string]int), all: make(map[string]*process)}

type servers struct {
	mu    sync.Mutex
	users map[string]int      // number of tests with an open door, by DSN
	all   map[string]*process // servers, by test and DSN
}

// server returns the URL of an RPC server with an open door, for a configuration with a database. The server ends with
// the test. ok is false if the database is away.
func (s *servers) server(t *testing.T, dsn, config string) (url string, ok bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := t.Name() + " " + dsn
	if p, ok := s.all[key]; ok {
		return p.serverURL(t), true
	}
	if !s.open(t, dsn, config) {
		return "", false
	}
	p := start(t, "-C", config, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	s.all[key] = p
	t.Cleanup(func() { s.stop(t) })
	return p.serverURL(t), true
}

// stop stops the servers of a test.
func (s *servers) stop(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.all {
		if strings.HasPrefix(key, t.Name()+" ") {
			p.stop(t, syscall.SIGTERM)
			delete(s.all, key)
		}
	}
}

// addresses match a configuration's sections with database addresses.
var addresses = regexp.MustCompile(`(?m)^(?:scheduler|database): .*$`)

// open opens a database's door until all tests that use it have ended. The configuration's other requirements are the
// test's. It returns false if the database is away. The caller holds the lock.
func (s *servers) open(t *testing.T, dsn, config string) bool {
	t.Helper()
	config = configFile(t, strings.Join(addresses.FindAllString(string(testenv.Read(t, config)), -1), "\n"))
	if s.users[dsn] == 0 {
		r := ours(t, "-l", "error", "-C", config, "migrate", "--door")
		if strings.Contains(r.stderr, "is not reachable") {
			return false
		}
		if r.code != 0 {
			t.Fatalf("migrate --door: %+v", r)
		}
	}
	s.users[dsn]++
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users[dsn]--; s.users[dsn] > 0 {
			return
		}
		var stderr testenv.Buffer // a role belongs to all databases, so it would remain
		if code := cli.Run(context.WithoutCancel(t.Context()), "", []string{"-l", "error", "-C", config, "migrate", "--no-door"}, io.Discard, &stderr); code != 0 && !strings.Contains(stderr.String(), "is not reachable") {
			t.Errorf("migrate --no-door: %s", stderr.String())
		}
	})
	return true
}

// doorServer returns the URL of an RPC server with an open door on a database. The server ends with the test.
func doorServer(t *testing.T, dsn string) string {
	t.Helper()
	url, ok := doors.server(t, dsn, databaseConfig(t, dsn))
	if !ok {
		t.Fatal("the database is away")
	}
	return url
}

// openDoor opens a database's door until the test ends.
func openDoor(t *testing.T, dsn string) {
	t.Helper()
	doors.mu.Lock()
	defer doors.mu.Unlock()
	if !doors.open(t, dsn, databaseConfig(t, dsn)) {
		t.Fatal("the database is away")
	}
}

func databaseConfig(t *testing.T, dsn string) string {
	t.Helper()
	return configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\n", dsn))
}
