package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
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
)

// Access says who may read and who may act.
type Access struct {
	// Hosts are the names by which browsers may ask for the dashboard, besides addresses and localhost.
	// Requests for other names are refused: they may come from a foreign page whose name was made to
	// resolve to this host (DNS rebinding).
	Hosts        service.Hosts
	RequireLogin bool
	Credentials  []rpc.Credentials // of those who may act
	Proxy        config.DashboardProxy

	// key signs sessions and forms. It is derived from the credentials: processes with the same
	// credentials accept each other's sessions, and changing the credentials ends all sessions.
	key     []byte
	origin  *http.CrossOriginProtection
	guesses *rpc.Guesses
}

// User is who sent a request.
type User struct {
	Name   string // "" if it is not known
	MayAct bool

	bearer bool // authenticated by a bearer token
}

const (
	sessionName = "swh_scheduler_session"
	sessionTime = 12 * time.Hour
	formTime    = 12 * time.Hour
)

// prepare derives the key.
func (a *Access) prepare() {
	sum := sha256.New()
	a.Credentials = slices.DeleteFunc(slices.Clone(a.Credentials), func(c rpc.Credentials) bool { return !c.Wanted() })
	for _, c := range a.Credentials {
		for _, text := range []string{c.Token, c.Username, c.Password} {
			sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
		}
	}
	if a.key = sum.Sum(nil); len(a.Credentials) == 0 {
		_, _ = rand.Read(a.key) // it never fails
	}
	a.origin, a.guesses = http.NewCrossOriginProtection(), new(rpc.Guesses)
}

// canLogIn reports whether any credentials are configured.
func (a *Access) canLogIn() bool { return len(a.Credentials) > 0 }

// user returns who sent a request, or the zero User if the request doesn't say. Wrong credentials are
// an error, and count against the sender's address.
func (a *Access) user(r *http.Request) (User, error) {
	if user, ok := a.proxied(r); ok {
		return user, nil
	}
	if r.Header.Get("Authorization") != "" {
		name, password, basic := r.BasicAuth()
		var user User
		err := a.judge(r, r.Header.Get("Authorization"), func() bool {
			for _, c := range a.Credentials {
				if c.Bearer(r) {
					user = User{Name: "token", MayAct: true, bearer: true}
				} else if basic && c.IsUser(name, password) {
					user = User{Name: name, MayAct: true}
				}
			}
			return user.MayAct
		})
		return user, err
	}
	cookie, err := r.Cookie(sessionName)
	if err != nil {
		return User{}, nil
	}
	name, ok := a.verify("session", cookie.Value, time.Now())
	return User{Name: name, MayAct: ok}, nil
}

// proxies returns the proxies that are trusted to tell who sends a request, and from where.
func (a *Access) proxies() rpc.Proxies { return a.Proxy.Addresses }

// judge calls right to check credentials, unless the sender has guessed wrong too often. It returns
// errTooManyLogins or errLogin.
func (a *Access) judge(r *http.Request, credentials string, right func() bool) error {
	switch a.guesses.Judge(a.proxies().From(r), credentials, time.Now(), right) {
	case nil:
		return nil
	case rpc.ErrTooMany:
		return errTooManyLogins
	}
	return errLogin
}

// proxied returns the user named by a trusted proxy.
func (a *Access) proxied(r *http.Request) (User, bool) {
	name := r.Header.Get(a.Proxy.UserHeader)
	if a.Proxy.UserHeader == "" || name == "" || !a.proxies().Sent(r) {
		return User{}, false
	}
	user := User{Name: name}
	if a.Proxy.RoleHeader != "" {
		for role := range strings.SplitSeq(strings.Join(r.Header.Values(a.Proxy.RoleHeader), ","), ",") {
			user.MayAct = user.MayAct || slices.Contains(a.Proxy.Operators, strings.TrimSpace(role))
		}
	}
	return user, true
}

// challenge asks a program for credentials; a browser has the page to log in.
func (a *Access) challenge(w http.ResponseWriter, r *http.Request) {
	for _, c := range a.Credentials {
		if c.Token != "" {
			w.Header().Add("WWW-Authenticate", "Bearer")
		}
		if c.Username != "" && accepts(r, "application/json") {
			w.Header().Add("WWW-Authenticate", `Basic realm="swh-scheduler", charset="UTF-8"`)
		}
	}
}

// sign returns a name with an expiry time, signed for a purpose.
func (a *Access) sign(purpose, name string, end time.Time) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + strconv.FormatInt(end.Unix(), 36)
	return text + "." + base64.RawURLEncoding.EncodeToString(a.mac(purpose, text))
}

func (a *Access) mac(purpose, text string) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(purpose + " " + text))
	return mac.Sum(nil)
}

// verify returns the name that was signed for a purpose, if it has not expired.
func (a *Access) verify(purpose, signed string, now time.Time) (name string, ok bool) {
	at := strings.LastIndexByte(signed, '.')
	if at < 0 {
		return "", false
	}
	text := signed[:at]
	given, err := base64.RawURLEncoding.DecodeString(signed[at+1:])
	if err != nil || !hmac.Equal(given, a.mac(purpose, text)) {
		return "", false
	}
	encoded, end, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(end, 36, 64)
	decoded, nameErr := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || nameErr != nil || now.Unix() > seconds {
		return "", false
	}
	return string(decoded), true
}

// csrf returns the token for a user's forms.
func (a *Access) csrf(user User, now time.Time) string {
	return a.sign("form", user.Name, now.Add(formTime))
}

// forged reports whether a POST may have been sent by a foreign page instead of one of our forms. Bearer
// tokens are sent by programs only. For a login, where a form's token would prove nothing, it relies on
// the origin that the browser tells.
func (a *Access) forged(r *http.Request, user User, login bool) bool {
	if user.bearer {
		return false
	}
	if a.origin.Check(r) != nil {
		return true
	}
	name, ok := a.verify("form", r.PostForm.Get("csrf"), time.Now())
	return !login && (!ok || name != user.Name)
}
