package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
)

// Page is a page of the dashboard.
type Page struct {
	Path     string // from the base, with the wildcards of http.ServeMux
	Title    string
	Menu     string // its word in the navigation; "" if it is not there
	Template string // file below templates, which defines "content" and the fragments
	// Fragments are the templates that show what may change while the page is open.
	Fragments []string
	// Data returns what the page shows, as a struct that can be JSON. It must not depend on
	// the user.
	Data func(ctx context.Context, r *Request) (any, error)
	// OfUser says that Data may depend on the user. Then it is computed for each request.
	OfUser bool
}

// Request is what Data and actions are asked for.
type Request struct {
	*http.Request
	*Dashboard
	User User
	Now  time.Time // by the database's clock, as far as it is known

	session *http.Cookie // which an action has set
}

// view is what templates are executed with.
type view struct {
	Data    any
	User    User
	CSRF    string // token for forms of actions; "" for who may not act
	Page    Page
	Title   string
	Menu    []menuItem
	URL     string // of this page, with its filter
	Version string
	Now     time.Time
	Login   bool // somebody can log in
}

type menuItem struct {
	Word, Path string
	Here       bool
}

// templates are the layout and a page's own.
type templates = *template.Template

func (d *Dashboard) parse(file string) (templates, error) {
	return template.New(file).Funcs(d.functions()).ParseFS(files, "templates/layout.html", "templates/status.html", "templates/parts.html", "templates/"+file)
}

// show answers a request for a page.
func (d *Dashboard) show(p Page, w http.ResponseWriter, r *http.Request) {
	user, err := d.reader(r)
	if p.Path == loginPage.Path {
		user, err = User{}, nil
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if accepts(r, "text/event-stream") && len(p.Fragments) > 0 {
		d.stream(p, w, r)
		return
	}
	data, err := d.read(p, r, user)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	d.answer(p, w, r, user, http.StatusOK, data)
}

// reader returns who sent a request, or an error if he may not read.
func (d *Dashboard) reader(r *http.Request) (User, error) {
	user, err := d.Access.user(r)
	if err == nil && d.Access.RequireLogin && user.Name == "" {
		err = errLogin
	}
	return user, err
}

// answer writes a page in the form that the request asks for.
func (d *Dashboard) answer(p Page, w http.ResponseWriter, r *http.Request, user User, status int, data any) {
	var body bytes.Buffer
	contentType := "text/html; charset=utf-8"
	var err error
	if accepts(r, "application/json") {
		contentType = "application/json"
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", " ")
		err = encoder.Encode(data)
	} else {
		name := "layout"
		if fragment := r.Header.Get("X-Fragment"); fragment != "" {
			if name = fragment; !slices.Contains(p.Fragments, name) {
				d.fail(w, r, Errorf(http.StatusNotFound, "This page has no such fragment."))
				return
			}
		}
		err = d.templates[p.Path].ExecuteTemplate(&body, name, d.view(p, r, user, data))
	}
	if err != nil {
		d.Log.Error("a page could not be written", "page", p.Path, "error", err)
		http.Error(w, "This page could not be written; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

func (d *Dashboard) view(p Page, r *http.Request, user User, data any) view {
	v := view{
		Data: data, User: user, Page: p, Title: p.Title, URL: r.URL.RequestURI(), Version: d.Version,
		Now: d.Reads.Now(), Login: d.Access.canLogIn(),
	}
	if user.MayAct { // to others it would tell whether a guess of the credentials, which make the key, is right
		v.CSRF = d.Access.csrf(user, time.Now())
	}
	for _, other := range pages {
		if other.Menu != "" {
			here := other.Path == p.Path || other.Path != "/" && strings.HasPrefix(p.Path, other.Path+"/")
			v.Menu = append(v.Menu, menuItem{other.Menu, d.Base + other.Path, here})
		}
	}
	if titled, ok := data.(interface{ PageTitle() string }); ok {
		v.Title = titled.PageTitle()
	}
	return v
}

// accepts reports whether the first media type that a request accepts is the given one.
func accepts(r *http.Request, mediaType string) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	first, _, _ = strings.Cut(first, ";")
	return strings.EqualFold(strings.TrimSpace(first), mediaType)
}

// read returns the data of a page.
func (d *Dashboard) read(p Page, r *http.Request, user User) (any, error) {
	if p.OfUser {
		return d.compute(r.Context(), p, r, user)
	}
	return d.data.of(r.Context(), r.URL.Path+"?"+r.URL.Query().Encode(), func(ctx context.Context) (any, error) {
		return d.compute(ctx, p, r.Clone(ctx), User{})
	})
}

// compute calls a page's Data, within Timeout.
func (d *Dashboard) compute(ctx context.Context, p Page, r *http.Request, user User) (data any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			d.Log.Error("a page panicked", "page", p.Path, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return p.Data(ctx, &Request{Request: r, Dashboard: d, User: user, Now: d.Reads.Now()})
}

// Word returns a parameter of the query, without blanks around it.
func (r *Request) Word(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// Error is what a page says instead of its data, with a status of HTTP.
type Error struct {
	Status  int    `json:"status"`
	Message string `json:"error"` // for the reader: it holds nothing secret
}

func (e *Error) Error() string { return e.Message }

// PageTitle is the title of the page.
func (e *Error) PageTitle() string { return http.StatusText(e.Status) }

// Errorf makes an Error. Its arguments are shown with what could mislead a reader escaped.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{status, pytext.Visible(fmt.Sprintf(format, args...))}
}

var errLogin = Errorf(http.StatusUnauthorized, "You have to log in.")

var errorPage = Page{Path: "error", Template: "error.html"}

// fail answers with an error, which is logged if it is ours.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	told, ok := errors.AsType[*Error](err)
	switch {
	case ok:
	case errors.Is(r.Context().Err(), context.Canceled):
		return // nobody waits for it
	case db.IsAway(err) || db.TimedOut(err) || errors.Is(err, context.DeadlineExceeded):
		d.Log.Warn("a page was not shown", "path", r.URL.Path, "error", pytext.OneLine(err).Error())
		told = Errorf(http.StatusServiceUnavailable, "The database does not answer, or not within %s. Try again.", Timeout)
		w.Header().Set("Retry-After", "5")
	default:
		d.Log.Error("a page failed", "path", r.URL.Path, "error", err)
		told = Errorf(http.StatusInternalServerError, "This failed; the log of the dashboard says why.")
	}
	if told == errLogin {
		if r.Header.Get("Authorization") != "" {
			d.refused(r)
		}
		if wantsHTML := !accepts(r, "application/json") && r.Method == http.MethodGet && r.Header.Get("X-Fragment") == ""; wantsHTML && d.Access.canLogIn() {
			http.Redirect(w, r, d.loginURL(r), http.StatusSeeOther)
			return
		}
		d.Access.challenge(w, r)
	}
	user, _ := d.Access.user(r)
	r.Header.Del("X-Fragment")
	d.answer(errorPage, w, r, user, told.Status, told)
}
