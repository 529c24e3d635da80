package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// Action handles the POST of a form.
type Action struct {
	Path string // from the base, with the wildcards of http.ServeMux
	// Do performs the action and returns the path of the next page, from the base. The form has been parsed.
	Do func(ctx context.Context, r *Request) (next string, err error)
	// Anyone is set if the action needs no permission.
	Anyone bool
}

var actions = []Action{
	{Path: "/login", Do: logIn, Anyone: true},
	{Path: "/logout", Do: logOut, Anyone: true},
	{Path: "/tasks", Do: changeTasks},
	{Path: "/graphs", Do: changeGraphs},
	{Path: "/hosters", Do: changeHosters},
	{Path: "/audit/{id}/confirm", Do: confirmChange},
	{Path: "/audit/{id}/cancel", Do: cancelChange},
}

// maxForm is the largest form in bytes. maxStrangersForm is the limit for users who may not act, as their number is not
// limited.
const (
	maxForm          = 1 << 20
	maxStrangersForm = 8 << 10
)

var errNotAllowed = Errorf(http.StatusForbidden, "You may read, but not act. Log in as somebody who may.")

// notAllowed returns the error for a user who lacks one of these rights.
func notAllowed(needs Rights) error {
	return Errorf(http.StatusForbidden, "You may not do that: it needs the roles %s.", strings.Join(needs.words(), " and "))
}

// address returns the sender's address, for the audit.
func (r *Request) address() string { return r.Access.proxies().Address(r.Request).String() }

// act performs an action, if the user may act, and redirects the browser to the next page.
func (d *Dashboard) act(a Action, w http.ResponseWriter, r *http.Request) {
	user, err := d.Access.user(r)
	most := int64(maxForm)
	if !user.MayAct() {
		most = maxStrangersForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	switch {
	case err != nil:
	case r.ParseForm() != nil:
		err = Errorf(http.StatusBadRequest, "The form can't be read.")
	default:
		err = d.Access.forged(r, user, a.Anyone)
	}
	if err == nil && !user.MayAct() && !a.Anyone {
		err = errNotAllowed
		if user.Name == "" && len(d.Access.Users) > 0 {
			err = errLogin
		}
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	request := &Request{Request: r, Dashboard: d, User: user, Now: d.Acts.Now()}
	next, err := a.Do(r.Context(), request)
	if !a.Anyone { // otherwise anyone could make pages read their data again at any rate
		d.forget()
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	if request.session != nil {
		http.SetCookie(w, request.session)
	}
	if accepts(r, "application/json") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"next": d.Base + next})
		return
	}
	http.Redirect(w, r, d.Base+next, http.StatusSeeOther)
}

// local returns address if it is a path of this dashboard, without the base; otherwise "/".
func (d *Dashboard) local(address string) string {
	path, ok := strings.CutPrefix(address, d.Base)
	if !ok || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
