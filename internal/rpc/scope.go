package rpc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/tasks"
)

// denied is the error of a client that lacks a role.
func denied(text string) *exception {
	x := httpError(http.StatusForbidden, "Forbidden", text)
	x.denied = true
	return x
}

// worksAs reports whether the client's role daemon covers a daemon, or all if that is "".
func (c *client) worksAs(name string) bool {
	if name == "" {
		return len(c.daemons) == 0
	}
	return slices.Contains(c.daemons, name)
}

// rolesFor returns the roles by which a client may make a call. For a client with daemons, the role daemon is among
// them if one of these makes the call.
func (c *client) rolesFor(ep *endpoint) roles {
	set := c.roles & ep.allowed
	if len(c.daemons) > 0 && ep.limited && !slices.ContainsFunc(c.daemons, func(name string) bool { return slices.Contains(ep.daemons, name) }) {
		set &^= daemon
	}
	return set
}

// may returns an error unless a client may make a call.
func (c *client) may(ep *endpoint) error {
	switch {
	case c.rolesFor(ep) != 0:
		return nil
	case c.roles&ep.allowed == 0:
		return denied(ep.allowed.missing(c.name, ep.path))
	}
	return denied(fmt.Sprintf("The client %s may not call %s: its role daemon is for %s, which doesn't make this call.", c.name, ep.path, strings.Join(c.daemons, " and ")))
}

// only passes on requests of clients with one of some roles.
func (s *Server) only(allowed roles, what string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := s.identity(r); id.roles&allowed == 0 {
			x := denied(allowed.missing(id.name, what))
			s.logDenial(r, what, x)
			refuse(w, r, x)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// doorName names the door in metrics and errors.
const doorName = "scheduler_go/database"

// logDenial counts a denial, and logs one a minute for each call of a client.
func (s *Server) logDenial(r *http.Request, what string, x *exception) {
	name := s.identity(r).name
	s.metrics.denied.WithLabelValues(name, what).Inc()
	if held, ok := s.denials.Log(name + " " + what); ok {
		s.Log.Warn("call denied", "endpoint", what, s.caller(r), "error", brief(x.message()), "not_logged_before", held)
	}
}

// listerNames are the names of listers by their identifiers, each read at most once a minute. The zero value is
// ready to use, and safe for concurrent use.
type listerNames struct {
	mu    sync.Mutex
	names map[uuid.UUID]listerName
}

type listerName struct {
	name, instance string
	read           time.Time
}

const (
	listerNameKept = time.Minute
	maxListerNames = 10_000
	listersAtOnce  = 1000
)

// of returns the names of listers. It leaves out unknown ones.
func (l *listerNames) of(ctx context.Context, store *db.Store, ids []uuid.UUID) (map[uuid.UUID]listerName, error) {
	found, now := map[uuid.UUID]listerName{}, time.Now()
	var unknown []uuid.UUID
	l.mu.Lock()
	for _, id := range ids {
		if known, ok := l.names[id]; ok && now.Sub(known.read) < listerNameKept {
			found[id] = known
		} else {
			unknown = append(unknown, id)
		}
	}
	l.mu.Unlock()
	if unknown == nil {
		return found, nil
	}
	rows, err := store.ListersByID(ctx, unknown)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil || len(l.names)+len(rows) > maxListerNames {
		l.names = map[uuid.UUID]listerName{}
	}
	for _, row := range rows {
		name := listerName{row.Name, row.InstanceName, now}
		l.names[row.ID], found[row.ID] = name, name
	}
	return found, nil
}

// lists returns an error unless one of the client's patterns matches a name.
func (c *call) lists(name, instance string) error {
	if slices.ContainsFunc(c.who.listers, func(p listerPattern) bool { return p.name.matches(name) && p.instance.matches(instance) }) {
		return nil
	}
	return denied(fmt.Sprintf("The role lister of the client %s is not for the lister %s/%s: none of its listers matches.", c.who.name, brief(name), brief(instance)))
}

// listAll returns an error unless the client's patterns match the listers of all given identifiers.
func (c *call) listAll(ids []uuid.UUID) error {
	for part := range slices.Chunk(ids, listersAtOnce) {
		names, err := c.listers.of(c.byKeys(len(part)), c.store, part)
		if err != nil {
			return err
		}
		for _, id := range part {
			l, ok := names[id]
			if !ok {
				return denied(fmt.Sprintf("The role lister of the client %s is not for the lister %s, which is not there.", c.who.name, id))
			}
			if err := c.lists(l.name, l.instance); err != nil {
				return err
			}
		}
	}
	return nil
}

// The scopes of calls.

func ofListerNamed(c *call, a listerArguments) error {
	if a.name == nil {
		return nil // which leads to no lister
	}
	return c.lists(*a.name, a.instance)
}

// ofLister checks the new names of a lister, too.
func ofLister(c *call, l model.Lister) error {
	if err := c.lists(l.Name, l.InstanceName); err != nil {
		return err
	}
	return c.listAll([]uuid.UUID{l.ID})
}

func ofAnyLister(c *call, value any) error {
	if l, ok := value.(model.Lister); ok {
		return c.listAll([]uuid.UUID{l.ID})
	}
	return nil // an error
}

func ofOrigins(c *call, a recordArguments) error {
	var ids []uuid.UUID
	seen := map[uuid.UUID]struct{}{}
	for i := range a.origins {
		id := a.origins[i].ListerID
		if _, known := seen[id]; !known {
			seen[id] = struct{}{}
			ids = append(ids, id)
		}
	}
	return c.listAll(ids)
}

func ofOriginsOfLister(c *call, f origins.ListedOriginFilter) error {
	if !f.ListerID.Valid {
		return denied(fmt.Sprintf("The role lister of the client %s reads origins of one lister: give lister_id.", c.who.name))
	}
	return c.listAll([]uuid.UUID{f.ListerID.UUID})
}

func ofTaskTypes(c *call, tasks []tasks.NewTask) error {
	for i := range tasks {
		taskType := tasks[i].Type
		if !slices.ContainsFunc(c.who.taskTypes, func(p pattern) bool { return p.matches(taskType) }) {
			return denied(fmt.Sprintf("The role web of the client %s is not for tasks of the type %s: none of its task_types matches.", c.who.name, brief(taskType)))
		}
	}
	return nil
}
