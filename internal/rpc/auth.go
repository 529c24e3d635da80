package rpc

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Credentials are what a client must send, one of the two: a bearer token, or a
// user name and a password (HTTP basic). Without any, nothing is asked for.
type Credentials struct {
	Token              string
	Username, Password string
}

// Wanted reports whether there are any.
func (c Credentials) Wanted() bool { return c != Credentials{} }

// accept reports whether a request holds what is asked for.
func (c Credentials) accept(r *http.Request) bool {
	if c.Bearer(r) {
		return true
	}
	username, password, given := r.BasicAuth()
	return given && c.IsUser(username, password)
}

// Bearer reports whether a request holds the token. Comparing takes the same time whatever is
// wrong, here and in the others.
func (c Credentials) Bearer(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && c.IsToken(token)
}

// IsToken reports whether a token is the one asked for.
func (c Credentials) IsToken(token string) bool { return c.Token != "" && same(token, c.Token) }

// IsUser reports whether user name and password are those asked for.
func (c Credentials) IsUser(username, password string) bool {
	return c.Username != "" && same(username, c.Username) && same(password, c.Password)
}

func same(given, wanted string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(wanted))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// guard lets only requests with the credentials through. It counts the others, and slows wrong credentials.
func (s *Server) guard(next http.Handler) http.Handler {
	c := s.Credentials
	if !c.Wanted() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := ErrWrong
		if given := r.Header.Get("Authorization"); given != "" {
			err = s.guesses.Judge(s.Proxies.From(r), given, time.Now(), func() bool { return c.accept(r) })
		}
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		s.refuseLogin(r)
		if errors.Is(err, ErrTooMany) {
			w.Header().Set("Retry-After", strconv.Itoa(int(GuessEvery.Seconds())))
			refuse(w, r, httpError(http.StatusTooManyRequests, "TooManyRequests", "There were too many wrong logins from your address. Try again in "+GuessEvery.String()+"."))
			return
		}
		if c.Token != "" {
			w.Header().Add("WWW-Authenticate", "Bearer")
		}
		if c.Username != "" {
			w.Header().Add("WWW-Authenticate", `Basic realm="swh-scheduler", charset="UTF-8"`)
		}
		refuse(w, r, httpError(http.StatusUnauthorized, "Unauthorized", "The server could not verify that you are authorized to access the URL requested."))
	})
}

// refuse answers with an exception.
func refuse(w http.ResponseWriter, r *http.Request, x *exception) {
	out := encodeException(x, nil)
	body, _ := out.finish()
	respond(w, r, x.httpStatus(), out.contentType(), body)
}

// refuseLogin counts and logs a request without the credentials. Nothing that it holds is
// logged, as people mix up user and password.
func (s *Server) refuseLogin(r *http.Request) {
	s.metrics.refused.Inc()
	if held, ok := s.refusals.Log(""); ok {
		s.Log.Warn("login refused", "address", s.Proxies.From(r), "credentials", r.Header.Get("Authorization") != "", "not_logged_before", held)
	}
}
