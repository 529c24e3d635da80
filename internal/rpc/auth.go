package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Credentials are the required credentials of a client, one of the two: a bearer token, or a user name and a
// password (HTTP basic). If both are empty, none are required.
type Credentials struct {
	Token              string
	Username, Password string
}

// IsSet reports whether there are any.
func (c Credentials) IsSet() bool { return c != Credentials{} }

// accept reports whether a request has the required credentials.
func (c Credentials) accept(r *http.Request) bool {
	if c.Bearer(r) {
		return true
	}
	username, password, given := r.BasicAuth()
	return given && c.IsUser(username, password)
}

// Bearer reports whether a request has the token. This comparison, and the others here, take the same time for every
// wrong value.
func (c Credentials) Bearer(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && c.IsToken(token)
}

// IsToken reports whether a token is the required one.
func (c Credentials) IsToken(token string) bool { return c.Token != "" && same(token, c.Token) }

// IsUser reports whether user name and password are the required ones.
func (c Credentials) IsUser(username, password string) bool {
	return c.Username != "" && same(username, c.Username) && same(password, c.Password)
}

func same(given, wanted string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(wanted))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// errBusy is the error of a password that can't be checked now, because too many checks wait.
var errBusy = errors.New("too many passwords are checked")

// errNobodyAsked is the error of a configuration that would accept calls without credentials.
var errNobodyAsked = errors.New("it has no clients and no credentials any more; to let everybody in, start the server again")

// guard passes on only requests with credentials, and sets the identity in their context. It counts the others, and
// slows wrong credentials.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := s.access.Load()
		id, err := anyone, error(nil)
		if a.asks() && len(r.Header.Values("Authorization")) > 1 {
			refuse(w, r, httpError(http.StatusBadRequest, "BadRequest", "The request has more than one Authorization."))
			return
		}
		if a.asks() {
			id, err = s.identify(a, r)
		}
		if err == nil {
			s.metrics.came(id)
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
			return
		}
		s.refuseLogin(r, err)
		switch {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", retryAfter)
			refuse(w, r, httpError(http.StatusServiceUnavailable, "ServiceUnavailable", "The server checks too many passwords at once. Try again."))
			return
		case errors.Is(err, ErrTooManyGuesses):
			w.Header().Set("Retry-After", strconv.Itoa(int(GuessInterval.Seconds())))
			refuse(w, r, httpError(http.StatusTooManyRequests, "TooManyRequests", "There were too many wrong logins from your address. Try again in "+GuessInterval.String()+"."))
			return
		}
		for _, way := range a.challenges() {
			w.Header().Add("WWW-Authenticate", way)
		}
		text := "The server could not verify that you are authorized to access the URL requested."
		if wrong, ok := errors.AsType[*certificateError](err); ok {
			text += " " + wrong.Error()
		}
		refuse(w, r, httpError(http.StatusUnauthorized, "Unauthorized", text))
	})
}

type identityKey struct{}

// identity returns the identity of a request that guard passed on.
func (s *Server) identity(r *http.Request) *identity {
	if id, ok := r.Context().Value(identityKey{}).(*identity); ok {
		return id
	}
	return nobody
}

// identify returns the identity of a request's credentials: of its Authorization or, without one, of the certificate
// of its connection.
func (s *Server) identify(a *access, r *http.Request) (*identity, error) {
	given := r.Header.Get("Authorization")
	if given == "" {
		return s.certified(a, r)
	}
	from, now := s.Proxies.Source(r), time.Now()
	id := a.quick(r)
	if user, password, ok := a.hasPasswords(r); ok && id == nil {
		if err := s.guesses.CheckLimit(from, given, now); err != nil {
			return nil, err
		}
		var err error
		if id, err = s.checks.check(r.Context(), a, from, user, password); err != nil {
			return nil, err
		}
	}
	if err := s.guesses.Check(from, given, now, func() bool { return id != nil }); err != nil {
		return nil, err
	}
	return id, nil
}

// refuse answers with an exception.
func refuse(w http.ResponseWriter, r *http.Request, x *exception) {
	out := encodeException(x, nil)
	body, _ := out.finish()
	respond(w, r, x.httpStatus(), out.contentType(), body)
}

// refuseLogin counts and logs a request without valid credentials. It logs nothing of the request's content, as
// people mix up user and password.
func (s *Server) refuseLogin(r *http.Request, err error) {
	s.metrics.refused.Inc()
	if held, ok := s.refusals.Log(""); ok {
		log := []any{"address", s.Proxies.Source(r), "credentials", r.Header.Get("Authorization") != "", "not_logged_before", held}
		if wrong, ok := errors.AsType[*certificateError](err); ok {
			log = append(log, "certificate", wrong.Error())
		}
		s.Log.Warn("login refused", log...)
	}
}
