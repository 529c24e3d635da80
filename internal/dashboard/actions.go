package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// Action changes something: a POST with the form of the page that offers it.
type Action struct {
	Path string // from the base, with the wildcards of http.ServeMux
	// Do does it, and returns the page to go to next, from the base. Its form is parsed.
	Do func(ctx context.Context, r *Request) (next string, err error)
	// Anyone says that whoever reaches the port may do it.
	Anyone bool
}

// actions are all that can be done.
var actions = []Action{
	{Path: "/login", Do: logIn, Anyone: true},
	{Path: "/logout", Do: logOut, Anyone: true},
	{Path: "/tasks", Do: changeTasks},
	{Path: "/graphs", Do: changeGraphs},
	{Path: "/audit/{id}/confirm", Do: confirmChange},
	{Path: "/audit/{id}/cancel", Do: cancelChange},
}

// maxForm is the size of a form, in bytes, and maxStrangersForm of one of somebody who may not act:
// any number of them may be read at a time.
const (
	maxForm          = 1 << 20
	maxStrangersForm = 8 << 10
)

var errNotAllowed = Errorf(http.StatusForbidden, "You may look, and not act. Log in as somebody who may.")

// act does an action for a user who may, and sends the browser to the next page.
func (d *Dashboard) act(a Action, w http.ResponseWriter, r *http.Request) {
	user, err := d.Access.user(r)
	most := int64(maxForm)
	if !user.MayAct {
		most = maxStrangersForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	switch {
	case err != nil:
	case r.ParseForm() != nil:
		err = Errorf(http.StatusBadRequest, "The form can't be read.")
	case d.Access.forged(r, user, a.Anyone):
		err = Errorf(http.StatusForbidden, "The form is not from this dashboard, or is too old. Load the page again.")
	case !user.MayAct && !a.Anyone && user.Name == "" && d.Access.canLogIn():
		err = errLogin
	case !user.MayAct && !a.Anyone:
		err = errNotAllowed
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	request := &Request{Request: r, Dashboard: d, User: user, Now: d.Acts.Now()}
	next, err := a.Do(r.Context(), request)
	if !a.Anyone { // or strangers could have all read anew as often as they like
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

// local returns a path of this dashboard, from the base; "/" for any other address.
func (d *Dashboard) local(address string) string {
	path, ok := strings.CutPrefix(address, d.Base)
	if !ok || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
