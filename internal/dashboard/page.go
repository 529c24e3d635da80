package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/sql/postgres"
)

// Page is a page of the dashboard.
type Page struct {
	Path     string // from the base, with the wildcards of http.ServeMux
	Title    string
	Menu     string   // its name in the navigation; "": it isn't there
	Template string   // file in templates, which defines "content" and the fragments
	Query    []string // the allowed parameters of its address
	// Fragments are the templates that may change while the page is open.
	Fragments []string
	// Data returns the page's content as a struct that can be encoded as JSON. The content must not depend on the user.
	Data func(ctx context.Context, r *Request) (any, error)
	// OfUser is set if Data depends on the user. Then Data runs for each request, without a limit on parallel calls, so
	// it must query neither the database nor the broker.
	OfUser bool
}

// Request is the argument of Data and of actions.
type Request struct {
	*http.Request
	*Dashboard
	User User
	Now  time.Time // by the database's clock, if that is known, otherwise by this host's

	session *http.Cookie // set by an action
}

// view is the data of templates.
type view struct {
	Data    any
	User    User
	CSRF    string // token for the user's forms; "" if the user may not act
	Page    Page
	Title   string
	Menu    []menuItem
	URL     string // of this page, with its filter
	Version string
	Now     time.Time
	Login   bool   // login is possible
	Strip   *strip // nil: the page has none
	Find    string // the text in the search field
}

type menuItem struct {
	Word, Path string
	Here       bool
}

// templates are the layout's and a page's own.
type templates = *template.Template

func (d *Dashboard) parse(file string) (templates, error) {
	return template.New(file).Funcs(d.functions()).ParseFS(files, "templates/layout.html", "templates/status.html", "templates/parts.html", "templates/"+file)
}

// show responds to a request for a page.
func (d *Dashboard) show(p Page, w http.ResponseWriter, r *http.Request) {
	var user User
	var err error
	if p.Path != loginPage.Path {
		user, err = d.reader(r)
	}
	if err == nil {
		_, err = p.parse(r.URL.RawQuery)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if accepts(r, "text/event-stream") && len(p.Fragments) > 0 {
		d.stream(p, w, r, user)
		return
	}
	if r.Header.Get("X-Fragment") == stripFragment && p.hasStrip() {
		d.answerStrip(w, r) // even if the page can't be read
		return
	}
	read, err := d.read(p, r, user)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if leads, ok := read.data.(interface{ LeadsTo() string }); ok && !accepts(r, "application/json") {
		if page := leads.LeadsTo(); page != "" {
			http.Redirect(w, r, d.Base+page, http.StatusSeeOther)
			return
		}
	}
	d.answer(p, w, r, user, http.StatusOK, read)
}

// reader returns the user of a request, or an error if the user may not read.
func (d *Dashboard) reader(r *http.Request) (User, error) {
	user, err := d.Access.user(r)
	required := d.Access.RequireLogin || d.Access.Closed != nil && d.Access.Closed()
	if err == nil && required && user.Name == "" {
		err = errLogin
	}
	return user, err
}

// answer writes a page in the requested form.
func (d *Dashboard) answer(p Page, w http.ResponseWriter, r *http.Request, user User, status int, read *reading) {
	var body bytes.Buffer
	contentType := "text/html; charset=utf-8"
	var err error
	if accepts(r, "application/json") {
		contentType = "application/json"
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", " ")
		err = encoder.Encode(read.data)
	} else if name := r.Header.Get("X-Fragment"); name == "" {
		v, viewErr := d.view(p, r, user, read.data)
		if viewErr != nil {
			d.fail(w, r, viewErr)
			return
		}
		err = d.templates[p.Path].ExecuteTemplate(&body, "layout", v)
	} else if slices.Contains(p.Fragments, name) {
		var html []byte
		html, err = d.fragment(p, read, fragment{name, user.rights})
		body.Write(html)
	} else {
		d.fail(w, r, Errorf(http.StatusNotFound, "This page has no such fragment."))
		return
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

func (d *Dashboard) view(p Page, r *http.Request, user User, data any) (v view, err error) {
	v = view{
		Data: data, User: user, Page: p, Title: p.Title, URL: r.URL.RequestURI(), Version: d.Version,
		Now: d.Reads.Now(), Login: d.Access.canLogIn(),
	}
	if user.MayAct() && p.Path != errorPage.Path {
		if v.CSRF, err = d.Access.csrf(r.Context(), user, time.Now()); err != nil {
			return v, err
		}
	}
	for _, other := range pages {
		if other.Menu != "" {
			here := other.Path == p.Path || other.Path == p.Path+"s" || other.Path != "/" && strings.HasPrefix(p.Path, other.Path+"/")
			v.Menu = append(v.Menu, menuItem{other.Menu, d.Base + other.Path, here})
		}
	}
	if p.hasStrip() && (!d.Access.RequireLogin || user.Name != "") {
		v.Strip, v.Find = new(d.strip(r.Context())), r.URL.Query().Get("find")
	}
	if titled, ok := data.(interface{ PageTitle() string }); ok {
		v.Title = titled.PageTitle()
	}
	return v, nil
}

// hasStrip reports whether a page has the strip: all that need no login have none.
func (p Page) hasStrip() bool { return p.Path != loginPage.Path && p.Path != errorPage.Path }

// accepts reports whether the first accepted media type of a request is the given one.
func accepts(r *http.Request, mediaType string) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	first, _, _ = strings.Cut(first, ";")
	return strings.EqualFold(strings.TrimSpace(first), mediaType)
}

// read reads a page.
func (d *Dashboard) read(p Page, r *http.Request, user User) (*reading, error) {
	if p.OfUser { // it needs no slot of maxReadings: a login works while others use all of them
		data, err := p.Data(r.Context(), &Request{Request: r, Dashboard: d, User: user, Now: d.Reads.Now()})
		return &reading{data: data}, err
	}
	return d.data.of(r.Context(), r.URL.Path+"?"+r.URL.Query().Encode(), func(ctx context.Context) (any, error) {
		return d.compute(ctx, p, r.Clone(ctx))
	})
}

// compute calls a page's Data with a time limit. It waits until fewer than maxReadings others run.
func (d *Dashboard) compute(ctx context.Context, p Page, r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	select {
	case d.asked <- struct{}{}:
		defer func() { <-d.asked }()
	default:
		return nil, errBusy
	}
	select {
	case d.readings <- struct{}{}:
		defer func() { <-d.readings }()
	case <-ctx.Done():
		return nil, errBusy
	}
	return guarded(d.Log, p.Path, func() (any, error) {
		return p.Data(ctx, &Request{Request: r, Dashboard: d, Now: d.Reads.Now()})
	})
}

// parse returns the parameters of a query. It returns an error for unknown ones, for those that can't be decoded, and
// for text that is invalid in PostgreSQL. Without a misspelt parameter, a filter would match everything.
func (p Page) parse(rawQuery string) (url.Values, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, Errorf(http.StatusBadRequest, "The address can't be read: %s.", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !isText(name) || slices.ContainsFunc(query[name], func(value string) bool { return !isText(value) }) {
			return nil, Errorf(http.StatusBadRequest, "The address is not text: it has a byte that is not UTF-8, or is zero.")
		}
		if !slices.Contains(p.Query, name) {
			return nil, Errorf(http.StatusBadRequest, "This page has no parameter %q.", name)
		}
	}
	return query, nil
}

// isText reports whether PostgreSQL accepts a text.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// Word returns a parameter of the query, without the blanks around it.
func (r *Request) Word(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// id returns the number in the path. what is the word for its object.
func (r *Request) id(what string) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		err = Errorf(http.StatusNotFound, "%q is not the number of %s.", r.PathValue("id"), what)
	}
	return id, err
}

// Error is an error page's content, with an HTTP status.
type Error struct {
	Status  int    `json:"status"`
	Message string `json:"error"` // for the reader; without secrets
}

func (e *Error) Error() string { return e.Message }

func (e *Error) PageTitle() string { return http.StatusText(e.Status) }

// Errorf returns an Error. It escapes characters that could mislead a reader.
func Errorf(status int, format string, args ...any) *Error {
	return &Error{status, pytext.Visible(fmt.Sprintf(format, args...))}
}

const (
	maxReadings = 12  // pages that are read at the same time
	maxAsked    = 200 // pages that are read or wait
)

var (
	errLogin = Errorf(http.StatusUnauthorized, "You have to log in.")
	errBusy  = Errorf(http.StatusServiceUnavailable, "Too many pages are being read. Try again.")

	errTooManyLogins = Errorf(http.StatusTooManyRequests, "There were too many wrong logins from your address. Try again in %s.", rpc.GuessInterval)
)

var errorPage = Page{Path: "error", Template: "error.html"}

// fail responds with an error. It logs errors of the server.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	shown, ok := errors.AsType[*Error](err)
	switch {
	case ok:
	case errors.Is(r.Context().Err(), context.Canceled):
		return // nobody waits for it
	case postgres.IsUnreachable(err) || postgres.TimedOut(err) || errors.Is(err, context.DeadlineExceeded):
		d.Log.Warn("a page was not shown", "path", r.URL.Path, "error", pytext.OneLine(err).Error())
		shown = Errorf(http.StatusServiceUnavailable, "The database does not answer, or not within %s. Try again.", Timeout)
	default:
		d.Log.Error("a page failed", "path", r.URL.Path, "error", err)
		shown = Errorf(http.StatusInternalServerError, "This failed; the log of the dashboard says why.")
	}
	if shown.Status == http.StatusServiceUnavailable || shown == errTooManyLogins {
		w.Header().Set("Retry-After", "10")
	}
	var user User
	if shown == errLogin || shown == errTooManyLogins {
		if r.Header.Get("Authorization") != "" {
			d.refused(r)
		}
		if wantsHTML := !accepts(r, "application/json") && r.Method == http.MethodGet && r.Header.Get("X-Fragment") == ""; wantsHTML && d.Access.canLogIn() && shown == errLogin {
			http.Redirect(w, r, d.loginURL(r), http.StatusSeeOther)
			return
		}
		d.Access.challenge(w)
	} else if shown.Status < http.StatusInternalServerError { // asking again would count wrong credentials twice
		var refused *Error
		if user, err = d.Access.user(r); errors.As(err, &refused) {
			d.refused(r)
		}
	}
	d.metrics.failed(shown.Status)
	r.Header.Del("X-Fragment")
	d.answer(errorPage, w, r, user, shown.Status, &reading{data: shown})
}
