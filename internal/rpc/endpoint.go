package rpc

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"swh-scheduler/internal/hints"
	"swh-scheduler/sql/db"
)

// endpoint is one of the calls.
type endpoint struct {
	path        string
	name        string // of the Python scheduler's method
	description string // for people, in /site-map
	handle      func(*call) error
	writes      bool  // changes something
	allowed     roles // who may call
	scoped      roles // roles that may make it with some arguments only
	limited     bool  // of clients with daemons, only some daemons may
	daemons     []string
	takes       *signature
	returns     parameter
}

// call is one call in progress. Its handler reads args, uses store, and writes the method's result to out. On an
// error, the output is discarded.
type call struct {
	context.Context
	store *db.Store
	args  dict // nil once they are read
	out   encoder
	now   time.Time

	maxRows int // of the answer
	room    *share

	hints   *hints.Batcher // of the store
	who     *identity
	listers *listerNames // of the store

	jsonLeft *int // bytes of JSON that may still be made of args
}

// at returns t, or now if t is zero.
func (c *call) at(t time.Time) time.Time {
	if t.IsZero() {
		return c.now
	}
	return t
}

// method is an endpoint for server and client. Its arguments are an A, whose fields visit visits, and it returns an
// R.
type method[A, R any] struct {
	endpoint
	visit  func(*fields, *A)
	result *kind[R]
	scope  func(*call, A) error // of clients with only scoped roles
}

// define describes a call: its path, the roles that may make it, its method of the Python scheduler's backend, and
// its handler.
func define[A, R any](path string, allowed roles, name, description string, visit func(*fields, *A), result *kind[R], answer func(*call, A) (R, error)) *method[A, R] {
	s := signatureOf(name, visit)
	m := &method[A, R]{endpoint{
		path: path, name: name, description: description, writes: !reads(path), allowed: allowed,
		takes: s, returns: parameter{of: result.pythonType, holds: reflect.TypeFor[R]()},
	}, visit, result, nil}
	m.handle = func(c *call) error {
		arguments, err := readCall(c, s, visit)
		if x, ok := errors.AsType[*exception](err); ok && x.status == 0 && !m.python() {
			x.status = http.StatusBadRequest
		}
		if err != nil {
			return err
		}
		if c.who.rolesFor(&m.endpoint)&^m.scoped == 0 {
			if err := m.scope(c, arguments); err != nil {
				return err
			}
		}
		returned, err := answer(c, arguments)
		if err != nil {
			return err
		}
		f := fields{out: c.out}
		result.write(&f, &returned)
		return f.err
	}
	return m
}

// python reports whether the Python scheduler has the call. It answers 500 to wrong arguments.
func (ep *endpoint) python() bool { return strings.HasPrefix(ep.name, backend) }

// within bounds a role's arguments of a call: check returns an error for arguments that it may not use.
func (m *method[A, R]) within(role roles, check func(*call, A) error) *method[A, R] {
	m.scoped, m.scope = role, check
	return m
}

// by lists the daemons, by their commands, that make a call. A client whose role daemon is limited to other daemons
// may not make it.
func (m *method[A, R]) by(daemons ...string) *method[A, R] {
	m.limited, m.daemons = true, daemons
	return m
}

// readCall reads the arguments of a call, and drops the values that it has read.
func readCall[A any](c *call, s *signature, visit func(*fields, *A)) (arguments A, err error) {
	f := fields{mode: ofCall, jsonLeft: c.jsonLeft}
	if err := s.bind(&f, c.args); err != nil {
		return arguments, err
	}
	visit(&f, &arguments)
	c.args = nil
	return arguments, f.err
}

// reads reports whether the call of a path changes nothing.
func reads(path string) bool {
	_, name, _ := strings.Cut(path, "/")
	return name == "get" || name == "get_all" || name == "get_by_id" || name == "search" || name == "visit_types" ||
		name == "status" || name == "filter_for_archive" || strings.HasPrefix(name, "peek_")
}

// ask makes the call at a server.
func (m *method[A, R]) ask(ctx context.Context, c *Client, arguments A) (returned R, err error) {
	value, err := c.call(ctx, m.path, func(f *fields) { m.visit(f, &arguments) })
	if err != nil {
		return returned, err
	}
	return readResponse(m.result, value)
}

// readResponse reads a server's answer.
func readResponse[R any](k *kind[R], value any) (R, error) {
	f := fields{mode: ofResponse}
	returned := k.read(&f, value)
	return returned, f.err
}

// none is the type of no arguments, and of None as the answer.
type none struct{}

var null = &kind[none]{
	read:  func(*fields, any) none { return none{} },
	write: func(f *fields, _ *none) { f.out.null() },
}

func noArguments(*fields, *none) {}

// gives makes a handler from a method of the store.
func gives[A, R any](read func(*db.Store, context.Context, A) (R, error)) func(*call, A) (R, error) {
	return func(c *call, a A) (R, error) { return read(c.store, c, a) }
}

// does is gives for a call that returns None.
func does[A any](write func(*db.Store, context.Context, A) error) func(*call, A) (none, error) {
	return func(c *call, a A) (none, error) { return none{}, write(c.store, c, a) }
}

// found returns v, or nil (None) if the error is absent.
func found[T any](v T, err, absent error) (*T, error) {
	if errors.Is(err, absent) {
		return nil, nil
	}
	return &v, err
}

// only visits the one argument of a call.
func only[V any](name string, k *kind[V]) func(*fields, *V) {
	return func(f *fields, v *V) { required(f, name, k, v) }
}
