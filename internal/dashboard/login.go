package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

var loginPage = Page{
	Path: "/login", Title: "Log in", Template: "login.html", Query: []string{"next"}, OfUser: true,
	Data: func(_ context.Context, r *Request) (any, error) {
		return login{Next: r.Base + r.local(r.Word("next"))}, nil
	},
}

type login struct {
	Next string `json:"next"`
}

// loginURL returns the address of the login page, which leads back to the requested page.
func (d *Dashboard) loginURL(r *http.Request) string {
	return d.Base + "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// logIn begins a session by user name and password, or by a token.
func logIn(_ context.Context, r *Request) (string, error) {
	name, secret := r.PostForm.Get("name"), r.PostForm.Get("secret")
	err := r.Access.judge(r.Request, name+"\n"+secret, func() bool {
		for _, c := range r.Access.Credentials {
			if name == "" && c.IsToken(secret) {
				name = "token"
				return true
			}
			if c.IsUser(name, secret) {
				return true
			}
		}
		return false
	})
	if err != nil {
		r.refused(r.Request)
		if err == errLogin {
			err = Errorf(http.StatusUnauthorized, "The user name and password, or the token, are wrong.")
		}
		return "", err
	}
	end := time.Now().Add(sessionTime)
	r.session = r.cookie(r.Access.sign("session", name, end), int(sessionTime.Seconds()))
	return r.local(r.PostForm.Get("next")), nil
}

// refused logs a failed login, without the user name, as people enter passwords in its place.
func (d *Dashboard) refused(r *http.Request) {
	d.metrics.refused.Inc()
	if held, ok := d.refusals.Log(""); ok {
		d.Log.Warn("login refused", "address", d.Access.proxies().From(r), "not_logged_before", held)
	}
}

func logOut(_ context.Context, r *Request) (string, error) {
	r.session = r.cookie("", -1)
	return "/", nil
}

// cookie returns the session's cookie, which expires after some seconds. Browsers send it to this dashboard only.
func (r *Request) cookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: sessionName, Value: value, Path: r.Base + "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Access.proxies().Sent(r.Request) && r.Header.Get("X-Forwarded-Proto") == "https",
	}
}
