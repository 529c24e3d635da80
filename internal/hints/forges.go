package hints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/model"
)

// forge describes the webhooks of a kind of forge.
type forge struct {
	signatures []string // headers with sha256 HMACs of the body
	token      string   // the header with the secret itself, or ""
	standard   bool     // the headers of Standard Webhooks, too
	event      []string // headers with the kind of event
	events     []string // that change what a visit finds; others are ignored
	hosts      []string // by default
	read       func(event string, body []byte) ([]model.Hint, error)
}

// The kinds of events: pushes, what else changes branches, tags and releases, and repositories that get a URL or become
// public. A repository that is deleted, archived or made private has nothing new for a visit: its lister finds that.
var (
	changes       = []string{"push", "create", "delete", "release", "repository", "public"}
	arrivals      = []string{"created", "renamed", "transferred", "publicized"} // actions of repository
	gitlabChanges = []string{"Push Hook", "Tag Push Hook", "System Hook", "Release Hook"}
)

// forges are the kinds of forges.
var forges = map[string]forge{
	"github":    {[]string{"X-Hub-Signature-256"}, "", false, []string{"X-GitHub-Event"}, changes, []string{"github.com"}, readGitHub},
	"gitlab":    {nil, "X-Gitlab-Token", true, []string{"X-Gitlab-Event"}, gitlabChanges, []string{"gitlab.com"}, readGitLab},
	"gitea":     {[]string{"X-Gitea-Signature", "X-Hub-Signature-256", "X-Gogs-Signature"}, "", false, []string{"X-Gitea-Event", "X-Gogs-Event"}, changes, nil, readGitea},
	"forgejo":   {[]string{"X-Forgejo-Signature", "X-Gitea-Signature", "X-Hub-Signature-256"}, "", false, []string{"X-Forgejo-Event", "X-Gitea-Event"}, changes, nil, readGitea},
	"bitbucket": {[]string{"X-Hub-Signature"}, "", false, []string{"X-Event-Key"}, []string{"repo:push", "repo:refs_changed"}, []string{"bitbucket.org"}, readBitbucket},
	"plain":     {[]string{"X-Hint-Signature"}, "", true, nil, nil, nil, readPlain},
}

// Forges are the names of the kinds of forges, sorted.
func Forges() (names []string) {
	for name := range forges {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DefaultHosts returns the hosts that a source of a kind of forge may name unless it has others; none: it needs some.
func DefaultHosts(kind string) []string { return forges[kind].hosts }

// errIgnored and errPrivate are the reasons why a valid webhook has no hint.
var (
	errIgnored = errors.New("the event changes nothing that a visit finds")
	errPrivate = fmt.Errorf("%w: the repository is private", errIgnored)
)

// hintsOf reads the hints of a webhook with a right signature. errIgnored: it has none.
func (f forge) hintsOf(header http.Header, body []byte) ([]model.Hint, error) {
	event := ""
	if f.event != nil { // a plain webhook is JSON, also if curl calls it a form
		for _, name := range f.event {
			if event = header.Get(name); event != "" {
				break
			}
		}
		if !slices.Contains(f.events, event) {
			return nil, errIgnored
		}
		if isForm(header) {
			payload, ok := formPayload(header, body)
			if !ok {
				return nil, errors.New("the form has no field payload")
			}
			body = payload
		}
	}
	return f.read(event, body)
}

// decode reads JSON into v. Its errors don't quote the body.
func decode(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a JSON %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return errors.New("the body is not JSON")
	}
	return nil
}

// one returns a hint of a public repository.
func one(url string, at time.Time, private bool) ([]model.Hint, error) {
	switch {
	case url == "":
		return nil, errors.New("the body has no URL of a repository")
	case private:
		return nil, errPrivate
	}
	return []model.Hint{{URL: url, ChangedAt: at}}, nil
}

// moment is a date as seconds since 1970, or as text. An unreadable date is none.
type moment struct{ time.Time }

var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"}

func (m *moment) UnmarshalJSON(text []byte) error {
	var seconds int64
	if json.Unmarshal(text, &seconds) == nil && seconds > 0 && seconds < 1<<40 {
		m.Time = time.Unix(seconds, 0).UTC()
		return nil
	}
	var date string
	if json.Unmarshal(text, &date) != nil {
		return nil
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, date); err == nil && t.Year() > 0 {
			m.Time = t.UTC()
			return nil
		}
	}
	return nil
}

// readGitHub reads a webhook of GitHub. Its lister lists html_url, with pushed_at as the last update.
func readGitHub(event string, body []byte) ([]model.Hint, error) {
	var p struct {
		Action     string `json:"action"`
		Repository struct {
			URL      string `json:"html_url"`
			PushedAt moment `json:"pushed_at"`
			Private  bool   `json:"private"`
		} `json:"repository"`
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	if event == "repository" && !slices.Contains(arrivals, p.Action) {
		return nil, errIgnored
	}
	return one(p.Repository.URL, p.Repository.PushedAt.Time, p.Repository.Private)
}

// readGitLab reads a webhook or system hook of GitLab. Its lister lists http_url_to_repo.
func readGitLab(_ string, body []byte) ([]model.Hint, error) {
	var p struct {
		Event   string `json:"event_name"` // of a system hook
		Kind    string `json:"object_kind"`
		Project struct {
			HTTP       string `json:"git_http_url"`
			Visibility *int   `json:"visibility_level"`
		} `json:"project"`
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	if event := p.Kind; event != "push" && event != "tag_push" && event != "release" && !slices.Contains([]string{"push", "tag_push", "repository_update"}, p.Event) {
		return nil, errIgnored
	}
	private := p.Project.Visibility != nil && *p.Project.Visibility != 20
	return one(p.Project.HTTP, time.Time{}, private)
}

// readGitea reads a webhook of Gitea, Forgejo or Gogs. Their listers list clone_url.
func readGitea(event string, body []byte) ([]model.Hint, error) {
	var p struct {
		Action     string `json:"action"`
		Repository struct {
			URL      string `json:"clone_url"`
			Private  bool   `json:"private"`
			Internal bool   `json:"internal"` // its owner is private
		} `json:"repository"`
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	if event == "repository" && !slices.Contains(arrivals, p.Action) {
		return nil, errIgnored
	}
	return one(p.Repository.URL, time.Time{}, p.Repository.Private || p.Repository.Internal)
}

// readBitbucket reads a webhook of Bitbucket Cloud, whose lister lists the HTTPS link to clone, or of a Bitbucket Data
// Center, which has these links in the webhook.
func readBitbucket(_ string, body []byte) ([]model.Hint, error) {
	var p struct {
		Date       moment `json:"date"`
		Repository struct {
			Private bool  `json:"is_private"`
			Public  *bool `json:"public"`
			Links   struct {
				HTML struct {
					Href string `json:"href"`
				} `json:"html"`
				Clone []struct {
					Href string `json:"href"`
					Name string `json:"name"`
				} `json:"clone"`
			} `json:"links"`
		} `json:"repository"`
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	r := p.Repository
	private := r.Private || r.Public != nil && !*r.Public
	for _, link := range r.Links.Clone {
		if strings.HasPrefix(link.Name, "http") {
			return one(link.Href, p.Date.Time, private)
		}
	}
	if r.Links.HTML.Href == "" {
		return one("", time.Time{}, private)
	}
	return one(strings.TrimSuffix(r.Links.HTML.Href, "/")+".git", p.Date.Time, private)
}

// readPlain reads a plain webhook. Each of its hints needs a date, so that a replay changes nothing.
func readPlain(_ string, body []byte) (hints []model.Hint, err error) {
	var p struct {
		Hints []struct {
			URL       string `json:"url"`
			VisitType string `json:"visit_type"`
			ChangedAt string `json:"changed_at"`
		} `json:"hints"`
	}
	if bytes.Count(body, []byte(",")) > 20*model.MaxHints { // before each becomes a value
		return nil, ErrTooMany
	}
	if err := decode(body, &p); err != nil {
		return nil, err
	}
	switch {
	case len(p.Hints) == 0:
		return nil, errors.New(`the body has no hints: it must be {"hints": [{"url": "https://…", "changed_at": "2026-01-31T12:00:00Z"}]}`)
	case len(p.Hints) > model.MaxHints:
		return nil, ErrTooMany
	}
	for i, h := range p.Hints {
		at, err := time.Parse(time.RFC3339Nano, h.ChangedAt)
		if err != nil || at.Year() <= 0 {
			return nil, fmt.Errorf("hints[%d].changed_at must be a date such as 2026-01-31T12:00:00Z", i)
		}
		hints = append(hints, model.Hint{URL: h.URL, VisitType: h.VisitType, ChangedAt: at.UTC()})
	}
	return hints, nil
}
