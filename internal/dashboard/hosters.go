package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
)

var hostersPage = Page{Path: "/hosters", Title: "Hosters", Menu: "Hosters", Template: "hosters.html", Query: []string{"q"}, Fragments: []string{"hosters"}, Data: showHosters}

// hostersData contains the hosters whose names contain Word, those that refuse visits first.
type hostersData struct {
	Word       string       `json:"word"`
	Configured bool         `json:"configured"` // the configuration limits hosters, or backs off
	Backoff    bool         `json:"backoff"`
	Hosters    []hosterData `json:"hosters"` // at most maxRows
	Found      int          `json:"found"`
	Counts     hosterCounts `json:"counts"` // of all hosters
	Part       part         `json:"read"`
}

type hosterData struct {
	status.Hoster
	State hosterState `json:"state"`
}

// IsInstance reports whether the hoster is an instance of a lister, not a host.
func (h hosterData) IsInstance() bool { return model.IsInstance(h.Hoster.Hoster) }

// Instance returns the name of the instance, or of its lister if the instance has none.
func (h hosterData) Instance() string {
	lister, instance, _ := strings.Cut(h.Hoster.Hoster, "/")
	return cmp.Or(instance, lister)
}

// Most returns the limit of visits in flight; nil without one.
func (h hosterData) Most() *int {
	if h.MaxInFlight == 0 && h.Refuses == nil {
		return nil
	}
	return new(status.Most(h.MaxInFlight, h.Refuses))
}

// hosterState says how many visits a hoster gets. Pages show hosters in the order of these.
type hosterState string

const (
	hosterClosed  hosterState = "closed"  // it refused visits, and gets none
	hosterLimited hosterState = "limited" // it refused visits, and gets fewer
	hosterFull    hosterState = "full"    // it has as many as configured
	hosterOpen    hosterState = "open"
)

var hosterStates = []hosterState{hosterClosed, hosterLimited, hosterFull, hosterOpen}

func stateOf(h status.Hoster) hosterState {
	inFlight, perMinute := model.HosterLimit{MaxInFlight: h.MaxInFlight, PerMinute: h.PerMinute}.Reached(h.InFlight, h.LastMinute)
	switch {
	case h.Refuses != nil && h.Refuses.MaxInFlight == 0:
		return hosterClosed
	case h.Refuses != nil:
		return hosterLimited
	case inFlight || perMinute:
		return hosterFull
	}
	return hosterOpen
}

// hosterCounts counts hosters by state.
type hosterCounts struct {
	All     int `json:"all"`
	Closed  int `json:"closed"`
	Limited int `json:"limited"`
	Full    int `json:"full"`
}

// Refusing returns the number of hosters that refused visits.
func (c hosterCounts) Refusing() int { return c.Closed + c.Limited }

func countHosters(rows []status.Hoster) hosterCounts {
	c := hosterCounts{All: len(rows)}
	for _, h := range rows {
		switch stateOf(h) {
		case hosterClosed:
			c.Closed++
		case hosterLimited:
			c.Limited++
		case hosterFull:
			c.Full++
		}
	}
	return c
}

func showHosters(ctx context.Context, r *Request) (any, error) {
	rows, part := r.now.hosters.part(ctx, r.Dashboard)
	limits := r.Config.Hosters
	d := hostersData{Word: r.Word("q"), Configured: limits.Any(), Backoff: limits.Backoff != nil, Hosters: []hosterData{}, Counts: countHosters(rows), Part: part}
	for _, h := range rows {
		if strings.Contains(h.Hoster, d.Word) {
			d.Hosters = append(d.Hosters, hosterData{h, stateOf(h)})
		}
	}
	slices.SortStableFunc(d.Hosters, func(a, b hosterData) int { // by name otherwise
		return cmp.Or(cmp.Compare(slices.Index(hosterStates, a.State), slices.Index(hosterStates, b.State)), cmp.Compare(b.InFlight, a.InFlight))
	})
	d.Found = len(d.Hosters)
	d.Hosters = d.Hosters[:min(d.Found, maxRows)]
	return d, nil
}

var hosterOperations = []operation{
	{
		Word: "reset hoster", Text: "Forget that it refused visits", Means: "The limit by refusals ends. The next claim gives it as many visits as the configuration allows.", needs: Tasks,
		Warning: "If the hoster still refuses visits, these refusals lower its limit again. Origins that it refused still wait for their time.",
		hoster: func(ctx context.Context, tx *db.Tx, hoster string) (bool, error) {
			return tx.ForgetRefusingHoster(ctx, hoster)
		},
	},
}

// changeHosters begins an action on the hoster of the form.
func changeHosters(ctx context.Context, r *Request) (string, error) {
	do, err := find(hosterOperations, r.PostForm.Get("action"))
	if err != nil {
		return "", err
	}
	hoster := r.PostForm.Get("hoster")
	if !r.User.May(do) {
		return "", notAllowed(do.needs)
	}
	if hoster == "" || !isText(hoster) {
		return "", Errorf(http.StatusBadRequest, "No hoster is selected.")
	}
	_, known, err := r.Acts.RefusingHoster(ctx, hoster)
	if err == nil && !known {
		err = Errorf(http.StatusConflict, "The hoster %q refused no visit of late.", hoster)
	}
	if err != nil {
		return "", err
	}
	return r.start(ctx, do, db.ActionFilter{Hoster: hoster}, true)
}
