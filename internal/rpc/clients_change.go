package rpc

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
)

// followEvery is how often the clients, and the users of the door, are checked.
const followEvery = time.Second

// follow replaces clients that have changed, until ctx ends. It ends the sessions at the door of clients that may no
// longer use it.
func (s *Server) follow(ctx context.Context) {
	last := ""
	for service.Sleep(ctx, cmp.Or(s.followTime, followEvery)) == nil {
		if s.Reread != nil {
			problem := ""
			if err := s.reread(); err != nil {
				if problem = err.Error(); problem != last {
					s.Log.Error("the configuration has changed and can't be used; the clients stay as they were", "error", problem)
				}
				last = problem
			}
		}
		s.door.EndDenied()
	}
}

// reread replaces clients that have changed.
func (s *Server) reread() error {
	single, clients, changed, err := s.Reread()
	if err != nil || !changed {
		return err
	}
	next, err := newAccess(single, clients)
	if err != nil {
		return err
	}
	if !next.asks() && s.access.Load().asks() {
		return errNobodyAsked
	}
	before := s.access.Swap(next)
	s.guesses.CredentialsChanged()
	names := func(a *access) (names []string) {
		for _, one := range a.clients {
			names = append(names, one.name)
		}
		return names
	}
	old, now := names(before), names(next)
	s.metrics.forget(slices.DeleteFunc(slices.Clone(before.clients), func(one *client) bool { return slices.Contains(now, one.name) }))
	s.Log.Info("the configuration was read again", "clients", len(now),
		"added", slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(old, name) }),
		"removed", slices.DeleteFunc(slices.Clone(old), func(name string) bool { return slices.Contains(now, name) }))
	return nil
}

// visitor returns the visitor of a request for the door.
func (s *Server) visitor(r *http.Request) door.Visitor {
	id := s.identity(r)
	return door.Visitor{Name: id.name, Daemons: id.daemons, Permitted: func(as string) bool {
		if id.again == nil {
			return !s.access.Load().asks()
		}
		now := id.again(s.access.Load())
		return now != nil && now.roles&daemon != 0 && (id.credential == "" || now.name == id.name) && now.worksAs(as)
	}}
}
