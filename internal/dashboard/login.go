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

// loginURL returns the address of the login page, which redirects to the requested page.
func (d *Dashboard) loginURL(r *http.Request) string {
	return d.Base + "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// logIn begins a session after checking user name and password.
func logIn(ctx context.Context, r *Request) (string, error) {
	name, secret := r.PostForm.Get("name"), r.PostForm.Get("secret")
	user, _ := r.Access.named(name)
	err := r.Access.guesses.CheckSlowly(r.Access.proxies().Source(r.Request), name+"\n"+secret, time.Now(), func() (bool, error) {
		return r.Access.passwords.isOf(ctx, user, secret)
	})
	if err = refusal(err); err == errLogin || err == errTooManyLogins {
		r.refused(r.Request)
		if err == errLogin {
			err = Errorf(http.StatusUnauthorized, "The user name or the password is wrong.")
		}
	}
	if err != nil {
		return "", err
	}
	value, err := r.Access.begin(ctx, r.Request, user)
	if err != nil {
		return "", err
	}
	r.Log.Info("login", "user", user.Name, "address", r.Access.proxies().Address(r.Request))
	r.session = r.cookie(value, int(sessionTime.Seconds()))
	return r.local(r.PostForm.Get("next")), nil
}

// refused logs a failed login. It omits the user name: people enter passwords there by mistake.
func (d *Dashboard) refused(r *http.Request) {
	d.metrics.refused.Inc()
	if held, ok := d.refusals.Log(""); ok {
		d.Log.Warn("login refused", "address", d.Access.proxies().Source(r), "not_logged_before", held)
	}
}

// logOut ends the session.
func logOut(ctx context.Context, r *Request) (string, error) {
	if err := r.Access.end(ctx, r.Request); err != nil {
		return "", err
	}
	if r.User.session != 0 {
		r.Log.Info("logout", "user", r.User.Name, "address", r.Access.proxies().Address(r.Request))
	}
	r.session = r.cookie("", -1)
	return "/", nil
}
