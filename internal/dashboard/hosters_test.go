package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// refusing adds a hoster that refused visits.
func refusing(hoster, limit, closed string) string {
	return `insert into scheduler_go.refusing_hosters (hoster, max_load, closed, level, lowered, until, waits, rounds, raised, since, score, refused, kind, reason, in_flight, counted, mixed)
		values ('` + hoster + `', ` + limit + `, ` + closed + `, 10, 'epoch', now() + interval '1 hour', 2, 0, 'epoch', now() - interval '95 minutes', 0, now() - interval '61 minutes', 'too_many', 'HTTP 429 <i>', 0, 'epoch', false)`
}

// inFlight adds visits of hosters that are in flight.
func inFlight(hosters, n string) string {
	return `insert into scheduler_go.work (state, queue, task_id, task_name, args, kwargs, hosters) select 'sent', 'q', gen_random_uuid(), 't', '[]', '{}', '{` + hosters + `}' from generate_series(1, ` + n + `)`
}

// The page has hosters with limits and those that refuse visits, these first: with their visits, limits and the last
// refusal. Other pages count these and link to it.
func TestHostersAreShown(t *testing.T) {
	t.Parallel()
	const hostile = "<b>\u202e.example"
	s := newSite(t, nil,
		refusing("gitea/low", "3.5", "'epoch'"), refusing("shut.example", "5", "now() + interval '1 hour'"), refusing(hostile, "1", "'epoch'"), refusing("kept.example", "1", "'epoch'"), refusing("seldom.example", "0", "'epoch'"),
		inFlight("gitlab/full", "5"), inFlight("gitea/low,git.example", "2"), inFlight("other.example", "9"),
		"insert into scheduler_go.hoster_claims (hoster, claimed, visits) values ('git.example', now(), 4)",
	)
	s.config.Hosters = model.Hosters{Default: model.HosterLimit{MaxInFlight: 5}, LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff, Limits: map[string]model.HosterLimit{
		"git.example": {PerMinute: 7}, "kept.example": {NoBackoff: true},
	}}
	body := s.has("/hosters", "1 hoster gets no visits now, 2 fewer", "1 other hoster has as many as configured",
		"2 / 3", "4 / 7", "5 / 5", `<span class="bad">closed</span> until`, `<span class="bad">limited</span>, more from`, "too_many", "HTTP 429 &lt;i&gt;", "no visit has succeeded", "2 waits ended in another refusal",
		`href="/listers?q=low"`, `href="/origins?url=shut.example"`, "&lt;b&gt;")
	if strings.Contains(body, "<b>") || strings.Contains(body, "<i>") || strings.Contains(body, "\u202e.example<") || strings.Contains(body, "kept.example") || strings.Contains(body, "other.example") || strings.Contains(body, "<button form=") {
		t.Errorf("a name isn't escaped, a hoster has no limit, or a reader may act:\n%s", body)
	}
	var order []string
	for _, h := range read[hostersData](s, "/hosters").Hosters {
		order = append(order, string(h.State)+" "+h.Hoster.Hoster)
	}
	if got := strings.Join(order, ", "); got != "closed shut.example, limited gitea/low, limited "+hostile+", full gitlab/full, open git.example" {
		t.Errorf("in the order %s", got)
	}
	if d := read[hostersData](s, "/hosters?q=git"); d.Found != 3 || d.Counts != (hosterCounts{All: 5, Closed: 1, Limited: 2, Full: 1}) {
		t.Errorf("%+v", d)
	}
	for _, path := range []string{"/", "/queues"} {
		s.has(path, `<a href="/hosters">`)
	}
	s.has("/", "3 hosters refuse visits</a>; 1 gets none now.")
	s.has("/queues", "5 hosters with limits</a>: 3 refuse visits, 1 has as many as configured.")
}

// Without limits the page says how to configure them. It has maxRows hosters at most.
func TestHostersWithoutLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.has("/hosters", "the configuration has no <code>hosters</code>", "hosters: {backoff: {}}")
	if body := s.get("/") + s.get("/queues"); strings.Contains(body, `<a href="/hosters">1`) || strings.Contains(body, `<a href="/hosters">0`) {
		t.Error("pages count hosters without limits")
	}
	s.config.Hosters = model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	s.forget()
	s.has("/hosters", "No hoster refuses visits, and none has a limit.")
	s.exec("insert into scheduler_go.refusing_hosters select 'host' || n || '.example', 3, 'epoch', 10, 'epoch', now(), 0, 0, 'epoch', 'epoch', 0, now(), 'refused', '', 0, 'epoch', false from generate_series(1, 150) n")
	s.has("/hosters", "The first 100 of 150; name some.")
	if d := read[hostersData](s, "/hosters?q=host77"); d.Found != 1 || d.Hosters[0].Refuses.FailingSince != nil {
		t.Errorf("%+v", d)
	}
}

// Who may act on tasks can make the scheduler forget that a hoster refused visits. It takes a confirmation, and the
// audit has the user.
func TestHosterIsReset(t *testing.T) {
	t.Parallel()
	s := work(t, nil)
	s.config.Hosters = model.Hosters{LostAfter: time.Hour, Backoff: &model.DefaultHosterBackoff}
	s.exec(refusing("gitea/low", "3", "'epoch'"), refusing("shut.example", "5", "now() + interval '1 hour'"))
	if body := s.get("/hosters", "Authorization", "Bearer t0ken"); !strings.Contains(body, `<button form="reset" class="danger" name="hoster" value="gitea/low"`) || !strings.Contains(body, `<form id="reset" method="post" action="/hosters"><input type="hidden" name="csrf"`) {
		t.Error(body)
	}
	form := url.Values{"action": {"reset hoster"}, "hoster": {"gitea/low"}}
	if answer, _ := s.ask(http.MethodPost, "/hosters", form); answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		t.Errorf("a stranger: %s", answer.Status)
	}
	for _, c := range []struct {
		action, hoster string
		status         int
	}{{"reset hoster", "", 400}, {"reset hoster", "a\x00", 400}, {"reset hoster", "calm.example", 409}, {"respawn", "gitea/low", 400}} {
		s.post("/hosters", url.Values{"action": {c.action}, "hoster": {c.hoster}}, c.status)
	}
	path := s.post("/hosters", form, 303)
	if a := s.change(path, db.ActionCounted); a.Matched != 1 || a.On.Hoster != "gitea/low" || a.Who != "ann" || s.count("scheduler_go.refusing_hosters") != 2 {
		t.Errorf("%+v", a)
	}
	s.has(path, "reset hoster", "the hoster <code>gitea/low</code>", "The limit by refusals ends.")
	s.post(path+"/confirm", url.Values{}, 303)
	if a := s.change(path, db.ActionDone); a.Changed != 1 || !strings.HasPrefix(a.ConfirmedBy, "ann") || s.count("scheduler_go.refusing_hosters where hoster = 'shut.example'") != 1 || s.count("scheduler_go.refusing_hosters") != 1 {
		t.Errorf("%+v", a)
	}
	s.has("/audit", "gitea/low")
	s.post("/hosters", form, 409)
}
