package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/sessions"
)

// Access decides who may read and who may act.
type Access struct {
	// Hosts are the allowed values of the header Host.
	Hosts        service.Hosts
	RequireLogin bool
	Closed       func() bool // reports whether a login is required now, beside RequireLogin; nil: it isn't
	Users        []config.DashboardUser
	Proxy        config.DashboardProxy

	sessions  *sessions.Store
	passwords passwordChecks
	origin    *http.CrossOriginProtection
	guesses   *rpc.Guesses
}

const (
	sessionTime = 12 * time.Hour
	formTime    = 12 * time.Hour
)

// prepare completes an Access. s stores the sessions.
func (a *Access) prepare(s *sessions.Store) {
	a.sessions, a.passwords = s, newPasswordChecks(a.Users)
	a.origin, a.guesses = http.NewCrossOriginProtection(), new(rpc.Guesses)
}

// canLogIn reports whether anybody has a password.
func (a *Access) canLogIn() bool {
	return slices.ContainsFunc(a.Users, func(u config.DashboardUser) bool { return u.PasswordHash != "" })
}

// canAct reports whether anybody may act.
func (a *Access) canAct() bool {
	all := Rights(0)
	for _, u := range a.Users {
		all |= rights(u.Roles)
	}
	for _, roles := range a.Proxy.Roles {
		all |= rights(roles)
	}
	return all&(Tasks|Graphs) != 0
}

// user returns the user of a request, or the zero User if the request names none. An error is about wrong credentials,
// which count against the sender's address, or about the database.
func (a *Access) user(r *http.Request) (User, error) {
	for _, header := range []string{"Authorization", a.Proxy.UserHeader} {
		if header != "" && len(r.Header.Values(header)) > 1 { // a proxy may have added its own header to the sender's
			return User{}, errLogin
		}
	}
	if user, ok := a.proxied(r); ok {
		return user, nil
	}
	if given := r.Header.Get("Authorization"); given != "" {
		var user User
		err := refusal(a.guesses.Check(a.proxies().Source(r), given, time.Now(), func() bool {
			user = a.byToken(given)
			return user.Name != ""
		}))
		return user, err
	}
	return a.bySession(r)
}

// byToken returns the user of a bearer token. It takes the same time for any wrong token.
func (a *Access) byToken(authorization string) (user User) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return user
	}
	for _, u := range a.Users {
		if isToken(u, token) {
			user = User{Name: u.Name, rights: rights(u.Roles), bearer: true}
		}
	}
	return user
}

// proxies returns the proxies whose headers name the sender's user and address.
func (a *Access) proxies() rpc.Proxies { return a.Proxy.Addresses }

// refusal returns the page's error for an error of rpc.Guesses.
func refusal(err error) error {
	switch err {
	case rpc.ErrTooManyGuesses:
		return errTooManyLogins
	case rpc.ErrWrongCredentials:
		return errLogin
	}
	return err
}

// proxied returns the user named by a trusted proxy.
func (a *Access) proxied(r *http.Request) (User, bool) {
	name := r.Header.Get(a.Proxy.UserHeader)
	if a.Proxy.UserHeader == "" || name == "" || !a.proxies().Trusts(r) {
		return User{}, false
	}
	user := User{Name: name, rights: View}
	if a.Proxy.RoleHeader != "" {
		for role := range strings.SplitSeq(strings.Join(r.Header.Values(a.Proxy.RoleHeader), ","), ",") {
			user.rights |= rights(a.Proxy.Roles[strings.TrimSpace(role)])
		}
	}
	return user, true
}

// challenge asks a program for a token. A browser has the login page instead.
func (a *Access) challenge(w http.ResponseWriter) {
	if slices.ContainsFunc(a.Users, func(u config.DashboardUser) bool { return u.TokenSHA256 != "" }) {
		w.Header().Add("WWW-Authenticate", "Bearer")
	}
}

// mac signs a text for a purpose.
func mac(key []byte, purpose, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose + " " + text))
	return mac.Sum(nil)
}

// sign returns a subject with an expiry time, signed for a purpose.
func sign(key []byte, purpose, subject string, end time.Time) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(subject)) + "." + strconv.FormatInt(end.Unix(), 36)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(key, purpose, text))
}

// signed reports whether a text is a subject that was signed for a purpose, and has not expired.
func signed(key []byte, purpose, subject, text string, now time.Time) bool {
	_, rest, _ := strings.Cut(text, ".")
	end, _, _ := strings.Cut(rest, ".")
	seconds, err := strconv.ParseInt(end, 36, 64)
	return err == nil && now.Unix() <= seconds && hmac.Equal([]byte(text), []byte(sign(key, purpose, subject, time.Unix(seconds, 0))))
}

// subject is part of the signature of a user's form tokens, so a form of another session is refused.
func (u User) subject() string { return strconv.FormatInt(u.session, 36) + " " + u.Name }

// csrf returns the token for a user's forms.
func (a *Access) csrf(ctx context.Context, user User, now time.Time) (string, error) {
	key, err := a.sessions.FormKey(ctx)
	if err != nil {
		return "", err
	}
	return sign(key, "form", user.subject(), now.Add(formTime)), nil
}

var errForged = Errorf(http.StatusForbidden, "The form is not from this dashboard, or is too old. Load the page again.")

// forged returns an error if another site's page may have sent a POST instead of our form. Only programs send bearer
// tokens. A login's form has no useful token, so there forged checks the browser's Origin header.
func (a *Access) forged(r *http.Request, user User, login bool) error {
	if user.bearer {
		return nil
	}
	if a.origin.Check(r) != nil {
		return errForged
	}
	if login {
		return nil
	}
	key, err := a.sessions.FormKey(r.Context())
	if err == nil && !signed(key, "form", user.subject(), r.PostForm.Get("csrf"), time.Now()) {
		err = errForged
	}
	return err
}
