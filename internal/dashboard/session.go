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

// The cookie of a session. Over TLS its prefix has browsers take it from this very host, and not from another one of
// the domain, which could have somebody act as another user.
const (
	sessionName       = "swh_scheduler_session"
	secureSessionName = "__Host-" + sessionName
)

// keySize is the number of random bytes of a session's key.
const keySize = 32

// bySession returns the user of a session; the zero User if there is none, or the user's password is another one
// meanwhile, which ends it.
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

// named returns the user of a name.
func (a *Access) named(name string) (config.DashboardUser, bool) {
	i := slices.IndexFunc(a.Users, func(u config.DashboardUser) bool { return u.Name == name })
	if i < 0 {
		return config.DashboardUser{}, false
	}
	return a.Users[i], true
}

// sessionKey returns the key in the cookie of a request; nil if there is none that this dashboard has signed. Of two
// cookies one may be somebody else's, so neither counts.
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

// begin begins a session of a user, and returns its cookie's value. The session that the request has ends.
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

// cookie returns the session's cookie, which expires after some seconds. Browsers send it to this host only.
func (r *Request) cookie(value string, seconds int) *http.Cookie {
	c := &http.Cookie{
		Name: r.Access.cookieName(r.Request), Value: value, Path: r.Base + "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.Access.secure(r.Request),
	}
	if c.Secure {
		c.Path = "/" // for the prefix
	}
	return c
}
