package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"slices"

	"swh-scheduler/internal/config"
	"swh-scheduler/sql/sessions"
)

// The cookie of a session. Its prefix makes browsers accept it only from this host over TLS. Without it, another host of
// the domain could set a cookie, and a user would act as somebody else.
const (
	sessionName       = "swh_scheduler_session"
	secureSessionName = "__Host-" + sessionName
)

// keySize is the number of random bytes of a session's key.
const keySize = 32

// bySession returns the user of a session. It returns the zero User if there is no session, or if the user's password
// has changed, which ends the session.
func (a *Access) bySession(r *http.Request) (User, error) {
	key, err := a.sessionKey(r)
	if err != nil || key == nil {
		return User{}, err
	}
	found, err := a.sessions.Find(r.Context(), key)
	if err != nil || found == nil {
		return User{}, err
	}
	u, known := a.named(found.Who)
	if !known || credentialOf(u) != found.Credential {
		_, err = a.sessions.End(r.Context(), key)
		return User{}, err
	}
	return User{Name: u.Name, rights: rights(u.Roles), session: found.ID}, nil
}

// named returns the user with a name.
func (a *Access) named(name string) (config.DashboardUser, bool) {
	i := slices.IndexFunc(a.Users, func(u config.DashboardUser) bool { return u.Name == name })
	if i < 0 {
		return config.DashboardUser{}, false
	}
	return a.Users[i], true
}

// sessionKey returns the key in a request's cookie; nil if this dashboard has signed none. If there are two cookies,
// another host may have set one, so both are ignored.
func (a *Access) sessionKey(r *http.Request) ([]byte, error) {
	cookies := r.CookiesNamed(a.cookieName(r))
	if len(cookies) != 1 || !a.canLogIn() {
		return nil, nil
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(cookies[0].Value)
	if err != nil || len(given) <= keySize {
		return nil, nil
	}
	formKey, err := a.sessions.FormKey(r.Context())
	if err != nil || !hmac.Equal(given[keySize:], mac(formKey, "session", string(given[:keySize]))) {
		return nil, err
	}
	return given[:keySize], nil
}

// begin starts a session of a user and returns the value of its cookie. It ends the request's current session.
func (a *Access) begin(ctx context.Context, r *http.Request, u config.DashboardUser) (string, error) {
	formKey, err := a.sessions.FormKey(ctx)
	if err != nil {
		return "", err
	}
	if err := a.end(ctx, r); err != nil {
		return "", err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	login := sessions.Login{Who: u.Name, Credential: credentialOf(u), Address: a.proxies().Address(r).String()}
	err = a.sessions.Begin(ctx, key, login, sessionTime)
	return base64.RawURLEncoding.EncodeToString(slices.Concat(key, mac(formKey, "session", string(key)))), err
}

// end ends the session of a request, if it has one.
func (a *Access) end(ctx context.Context, r *http.Request) error {
	key, err := a.sessionKey(r)
	if err == nil && key != nil {
		_, err = a.sessions.End(ctx, key)
	}
	return err
}

// secure reports whether a request came over TLS, perhaps to a trusted proxy.
func (a *Access) secure(r *http.Request) bool {
	return r.TLS != nil || a.proxies().Trusts(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func (a *Access) cookieName(r *http.Request) string {
	if a.secure(r) {
		return secureSessionName
	}
	return sessionName
}

// cookie returns the session's cookie, which expires after the given seconds. Browsers send it only to this host.
func (r *Request) cookie(value string, seconds int) *http.Cookie {
	c := &http.Cookie{
		Name: r.Access.cookieName(r.Request), Value: value, Path: r.Base + "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.Access.secure(r.Request),
	}
	if c.Secure {
		c.Path = "/" // the prefix requires it
	}
	return c
}
