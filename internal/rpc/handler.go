package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"swh-scheduler/sql/postgres"
)

// serve answers one call of an endpoint.
func (s *Server) serve(ep *endpoint, w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	defer s.Health.Call(ep.path)()
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	status, fault := http.StatusOK, ""
	room := &share{room: s.room, most: s.MaxAnswer, from: s.Proxies.Source(r)}
	defer room.leave()
	out, err := s.answer(ep, w, r, room, (*buf)[:0])
	var body []byte
	if err == nil {
		body, err = out.finish()
	}
	if err != nil {
		x, internal := exceptionOf(err)
		if ended := r.Context().Err(); errors.Is(ended, context.Canceled) {
			internal, x.server = false, false // the client disconnected, or the server stops
		}
		switch {
		case x.denied:
			s.logDenial(r, ep.path, x)
		case internal && x.status == http.StatusServiceUnavailable:
			s.Log.Warn("call failed; its client may try again", "endpoint", ep.path, s.caller(r), "error", brief(err.Error())) // a text: not for Sentry
		case internal:
			s.Log.Error("call failed", "endpoint", ep.path, s.caller(r), "error", briefError{err})
		default:
			s.Log.Debug("call refused", "endpoint", ep.path, s.caller(r), "error", briefError{err})
		}
		status, fault = x.httpStatus(), x.fault()
		out = encodeException(x, (*buf)[:0])
		body, _ = out.finish()
	}
	*buf = body[:0]
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	respond(w, r, status, out.contentType(), body)
	s.metrics.observe(ep, fault, time.Since(began))
	if s.LogCalls && s.Log.Enabled(r.Context(), slog.LevelDebug) {
		s.Log.Debug("call", "endpoint", ep.path, s.caller(r), "status", status, "took", time.Since(began))
	}
}

// caller returns the caller for the log: the address, and the client, or the user of the single credential.
func (s *Server) caller(r *http.Request) slog.Attr {
	who := []any{"address", r.RemoteAddr}
	switch id := s.identity(r); {
	case id.name == "":
	case id.credential == "":
		who = append(who, "user", id.name)
	default:
		who = append(who, "client", id.name)
	}
	return slog.Group("caller", who...)
}

// encodeException writes an exception in msgpack, whatever the client accepts, as the Python scheduler does.
func encodeException(x *exception, buf []byte) encoder {
	out := newEncoder(mimeMsgpack, buf)
	x.write(out)
	return out
}

// answer reads the request and calls the endpoint, which writes to buf.
func (s *Server) answer(ep *endpoint, w http.ResponseWriter, r *http.Request, room *share, buf []byte) (out encoder, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("call panicked", "endpoint", ep.path, s.caller(r), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if r.Method != http.MethodPost {
		return nil, httpError(http.StatusMethodNotAllowed, "MethodNotAllowed", "The method is not allowed for the requested URL.")
	}
	if r.Header.Get("Origin") != "" {
		return nil, httpError(http.StatusForbidden, "Forbidden", "Calls from a page in a browser are not answered.")
	}
	who := s.identity(r)
	if err := who.may(ep); err != nil {
		return nil, err
	}
	args, err := s.readArguments(ep, w, r, room)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	c := &call{
		Context: postgres.WithMeter(ctx, room.grow), store: s.Store, args: args, now: time.Now().UTC(), maxRows: s.MaxRows, room: room, jsonLeft: &room.jsonLeft, hints: s.batcher, who: who, listers: &s.listers,
		out: bound(newEncoder(negotiate(r.Header.Get("Accept")), buf), func(size int) error { return room.written(ctx, size, ep.writes) }),
	}
	if err = ep.handle(c); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		x := psycopgError("QueryCanceled", "the call took longer than %s", callTimeout)
		x.server = true
		return nil, x
	}
	return c.out, err
}

// readArguments reads a body, then takes a slot for the call and reads its arguments.
func (s *Server) readArguments(ep *endpoint, w http.ResponseWriter, r *http.Request, room *share) (dict, error) {
	body := buffers.Get().(*[]byte)
	defer putBuffer(body) // arguments share nothing with it
	connection := http.NewResponseController(w)
	deadline := func(t time.Time) { _ = connection.SetReadDeadline(t) } // fails only if the client is gone
	deadline(time.Now().Add(s.smallTime))
	room.await(deadline)
	var err error
	*body, err = readBody(r, (*body)[:0], s.MaxBody, room)
	room.arrived(err == nil) // a call may take longer than its body
	if err == nil {
		err = room.enter()
	}
	if err != nil {
		return nil, err
	}
	return arguments(r.Context(), ep, r.Header.Get("Content-Type"), *body, room)
}

// arguments reads the arguments of a call. A call without arguments needs a content type only if it changes
// something: a page in a browser can't set one without a preflight request.
func arguments(ctx context.Context, ep *endpoint, contentType string, body []byte, room *share) (dict, error) {
	mime, _, _ := strings.Cut(contentType, ";")
	var read func([]byte, limits) (any, error)
	switch strings.ToLower(strings.TrimSpace(mime)) {
	case mimeMsgpack:
		read = readMsgpack
	case mimeJSON:
		read = readJSON
	}
	switch {
	case len(body) == 0 && ep.writes && read == nil:
		return nil, httpError(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "A call that changes something needs a Content-Type: "+mimeMsgpack+" or "+mimeJSON+".")
	case len(body) == 0:
		return nil, nil
	case read == nil:
		return nil, valueError("Wrong content type `%s` for API request", mime)
	}
	value, err := room.decode(ctx, body, read)
	if err != nil {
		return nil, err
	}
	d, ok := value.(dict)
	if !ok {
		return nil, typeError("%s() argument after ** must be a mapping, not %s", ep.name, typeName(value))
	}
	return d, nil
}

// negotiate returns the format to answer in, by the Accept header: JSON, unless
// msgpack is preferred.
func negotiate(accept string) string {
	best, bestQuality, bestSpecificity := mimeJSON, 0.0, -1
	for _, mime := range []string{mimeJSON, mimeMsgpack} {
		for item := range strings.SplitSeq(accept, ",") {
			kind, parameters, _ := strings.Cut(item, ";")
			specificity := 1
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case mime:
				specificity = 2
			case "application/*":
			case "*/*", "*":
				specificity = 0
			default:
				continue
			}
			quality := qualityOf(parameters)
			if quality > bestQuality || quality == bestQuality && quality > 0 && specificity > bestSpecificity {
				best, bestQuality, bestSpecificity = mime, quality, specificity
			}
		}
	}
	return best
}

// qualityOf reads the parameter q; 1 if there is none.
func qualityOf(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(text, 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

// respond sends a whole body, always with its length: the Python scheduler's client takes a chunked answer for a
// stream, which it does not decode. Like the Python server it compresses nothing: within one data centre that takes
// longer than it saves.
func respond(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bodyTimeout)) // fails only if the client has disconnected
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails only if the client has disconnected
	}
}

// buffers are reused for requests and answers.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// putBuffer returns a buffer to the pool, or drops a large one.
func putBuffer(buf *[]byte) {
	const largest = 1 << 20
	if cap(*buf) <= largest {
		buffers.Put(buf)
	}
}
