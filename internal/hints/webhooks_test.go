package hints_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/model"
)

const (
	secret    = "a-secret-of-webhooks"
	newSecret = "another-secret-of-webhooks"
)

// hinter records hints, or fails.
type hinter struct {
	got     []model.Hint
	fail    error
	unknown bool
}

func (h *hinter) Hint(_ context.Context, all []model.Hint) (answer model.HintAnswer, err error) {
	if h.fail != nil {
		return answer, h.fail
	}
	for _, one := range all {
		if err := one.Check(); err != nil {
			answer.Refuse(one.URL, err)
			continue
		}
		h.got = append(h.got, one)
		if h.unknown {
			answer.Unknown++
			continue
		}
		answer.Moved++
	}
	return answer, nil
}

type webhookWorld struct {
	*hints.Webhooks
	hinter *hinter
	now    time.Time
	from   string // the address of requests
	reg    *prometheus.Registry
}

func newWebhookWorld(t *testing.T, change ...func(*hints.Source)) *webhookWorld {
	t.Helper()
	w := &webhookWorld{hinter: &hinter{}, reg: prometheus.NewRegistry(), from: "192.0.2.1/32", now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	var sources []hints.Source
	for _, kind := range hints.Forges() {
		s := hints.Source{Name: kind, Forge: kind, Secrets: []string{newSecret, secret}, Hosts: []string{"forge.example", "*.below.example"}, MaxPerSecond: 100}
		for _, f := range change {
			f(&s)
		}
		sources = append(sources, s)
	}
	w.Webhooks = hints.New(hints.Options{
		Sources: sources, Hints: w.hinter, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: w.reg,
		From: func(*http.Request) netip.Prefix { return netip.MustParsePrefix(w.from) },
		Now:  func() time.Time { return w.now },
	})
	return w
}

// webhook is a webhook with its headers.
type webhook struct {
	path, body string
	header     map[string]string
}

func (w *webhookWorld) send(t *testing.T, h webhook) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, h.path, strings.NewReader(h.body))
	for name, value := range h.header {
		r.Header.Set(name, value)
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	text, _ := io.ReadAll(out.Result().Body)
	return out.Code, string(text)
}

func mac(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// standard returns the headers of Standard Webhooks.
func standard(key, id string, at time.Time, body string) map[string]string {
	date := fmt.Sprint(at.Unix())
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(id + "." + date + "." + body))
	return map[string]string{"webhook-id": id, "webhook-timestamp": date, "webhook-signature": "v1,aaaa v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))}
}

func with(header map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, value := range header {
		all[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

const (
	githubPush    = `{"ref": "refs/heads/main", "repository": {"html_url": "https://forge.example/u/p", "clone_url": "https://forge.example/u/p.git", "pushed_at": 1769860000, "private": false}}`
	gitlabPush    = `{"object_kind": "push", "event_name": "push", "project": {"git_http_url": "https://forge.example/u/p.git", "visibility_level": 20}}`
	gitlabSystem  = `{"event_name": "repository_update", "project": {"git_http_url": "https://forge.example/u/p.git", "visibility_level": 20}}`
	giteaPush     = `{"ref": "refs/heads/main", "repository": {"clone_url": "https://forge.example/u/p.git", "private": false}}`
	bitbucketPush = `{"push": {}, "repository": {"is_private": false, "links": {"html": {"href": "https://forge.example/u/p"}}}}`
	dataCenter    = `{"date": "2026-01-31T13:00:00+0200", "repository": {"public": true, "links": {"clone": [{"name": "ssh", "href": "ssh://forge.example/u/p.git"}, {"name": "http", "href": "https://forge.example/scm/u/p.git"}]}}}`
	plainHint     = `{"hints": [{"url": "https://a.below.example/p", "visit_type": "svn", "changed_at": "2026-01-31T11:00:00Z"}]}`
)

var (
	githubDeleted  = strings.Replace(githubPush, `"ref"`, `"deleted": true, "after": "0000000000000000000000000000000000000000", "ref"`, 1)
	githubRenamed  = `{"action": "renamed", "changes": {"repository": {"name": {"from": "p"}}}, ` + strings.ReplaceAll(githubPush, "u/p", "u/q")[1:]
	githubCapitals = strings.ReplaceAll(githubPush, "forge.example", "Forge.EXAMPLE")
	githubLarge    = `{"commits": "` + strings.Repeat("c", 25_000_000-1000) + `", ` + githubPush[1:]
	giteaInternal  = strings.Replace(giteaPush, `"private": false`, `"private": false, "internal": true`, 1)
	giteaCreated   = `{"action": "created", ` + giteaPush[1:]
)

// Each forge's webhooks give a hint of the URL that its lister lists.
func TestWebhooksOfForges(t *testing.T) {
	t.Parallel()
	form := "payload=" + url.QueryEscape(giteaPush)
	githubForm := "payload=" + url.QueryEscape(githubPush)
	key := base64.StdEncoding.EncodeToString([]byte(secret))
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		webhook
		want   model.Hint
		secret string // instead of secret
	}{
		"GitHub": {
			webhook: webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubPush), "X-GitHub-Event": "push"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"GitHub, new secret, form": {
			webhook: webhook{"/hints/github", githubForm, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(newSecret, githubForm), "X-GitHub-Event": "push", "Content-Type": "application/x-www-form-urlencoded"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"GitHub, date as text": {
			webhook: webhook{"/hints/github", strings.Replace(githubPush, "1769860000", `"2026-01-31T11:00:00Z"`, 1), map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, strings.Replace(githubPush, "1769860000", `"2026-01-31T11:00:00Z"`, 1)), "X-GitHub-Event": "release"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: now.Add(-time.Hour), Source: "github"},
		},
		"GitLab, token": {
			webhook: webhook{"/hints/gitlab", gitlabPush, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitlab"},
		},
		"GitLab, system hook": {
			webhook: webhook{"/hints/gitlab", gitlabSystem, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "System Hook"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitlab"},
		},
		"GitLab, signing token": {
			webhook: webhook{"/hints/gitlab", gitlabPush, with(standard(secret, "1", now, gitlabPush), "X-Gitlab-Event", "Push Hook")},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitlab"}, secret: "whsec_" + key,
		},
		"Gitea": {
			webhook: webhook{"/hints/gitea", giteaPush, map[string]string{"X-Gitea-Signature": mac(secret, giteaPush), "X-Gitea-Event": "push"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitea"},
		},
		"Gitea, form": {
			webhook: webhook{"/hints/gitea", form, map[string]string{"X-Gitea-Signature": mac(secret, giteaPush), "X-Gitea-Event": "push", "Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitea"},
		},
		"Gogs": {
			webhook: webhook{"/hints/gitea", giteaPush, map[string]string{"X-Gogs-Signature": mac(secret, giteaPush), "X-Gogs-Event": "push"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitea"},
		},
		"GitHub, a branch is deleted": {
			webhook: webhook{"/hints/github", githubDeleted, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubDeleted), "X-GitHub-Event": "push"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"GitHub, a repository is renamed": {
			webhook: webhook{"/hints/github", githubRenamed, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubRenamed), "X-GitHub-Event": "repository"}},
			want:    model.Hint{URL: "https://forge.example/u/q", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"Gitea, a repository is created": {
			webhook: webhook{"/hints/gitea", giteaCreated, map[string]string{"X-Gitea-Signature": mac(secret, giteaCreated), "X-Gitea-Event": "repository"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "gitea"},
		},
		"the host in capitals": {
			webhook: webhook{"/hints/github", githubCapitals, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubCapitals), "X-GitHub-Event": "push"}},
			want:    model.Hint{URL: "https://Forge.EXAMPLE/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"another content type": {
			webhook: webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubPush), "X-GitHub-Event": "push", "Content-Type": "text/plain"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"25 MB": {
			webhook: webhook{"/hints/github", githubLarge, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubLarge), "X-GitHub-Event": "push"}},
			want:    model.Hint{URL: "https://forge.example/u/p", ChangedAt: time.Unix(1769860000, 0).UTC(), Source: "github"},
		},
		"Forgejo": {
			webhook: webhook{"/hints/forgejo", giteaPush, map[string]string{"X-Forgejo-Signature": mac(secret, giteaPush), "X-Forgejo-Event": "create"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "forgejo"},
		},
		"Bitbucket": {
			webhook: webhook{"/hints/bitbucket", bitbucketPush, map[string]string{"X-Hub-Signature": "sha256=" + mac(secret, bitbucketPush), "X-Event-Key": "repo:push"}},
			want:    model.Hint{URL: "https://forge.example/u/p.git", Source: "bitbucket"},
		},
		"Bitbucket Data Center": {
			webhook: webhook{"/hints/bitbucket", dataCenter, map[string]string{"X-Hub-Signature": "sha256=" + mac(secret, dataCenter), "X-Event-Key": "repo:refs_changed"}},
			want:    model.Hint{URL: "https://forge.example/scm/u/p.git", ChangedAt: now.Add(-time.Hour), Source: "bitbucket"},
		},
		"plain": {
			webhook: webhook{"/hints/plain", plainHint, map[string]string{"X-Hint-Signature": "sha256=" + mac(secret, plainHint)}},
			want:    model.Hint{URL: "https://a.below.example/p", VisitType: "svn", ChangedAt: now.Add(-time.Hour), Source: "plain"},
		},
		"plain, as curl sends it": {
			webhook: webhook{"/hints/plain", plainHint, map[string]string{"X-Hint-Signature": "sha256=" + mac(secret, plainHint), "Content-Type": "application/x-www-form-urlencoded"}},
			want:    model.Hint{URL: "https://a.below.example/p", VisitType: "svn", ChangedAt: now.Add(-time.Hour), Source: "plain"},
		},
		"plain, Standard Webhooks": {
			webhook: webhook{"/hints/plain", plainHint, standard(secret, "x", now.Add(4*time.Minute), plainHint)},
			want:    model.Hint{URL: "https://a.below.example/p", VisitType: "svn", ChangedAt: now.Add(-time.Hour), Source: "plain"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebhookWorld(t, func(s *hints.Source) {
				if c.secret != "" {
					s.Secrets = []string{c.secret}
				}
			})
			status, answer := w.send(t, c.webhook)
			if diff := cmp.Diff([]model.Hint{c.want}, w.hinter.got); status != http.StatusOK || !strings.Contains(answer, `"moved":1`) || diff != "" {
				t.Errorf("%d %s %s", status, answer, diff)
			}
			// The same again changes nothing, as long as it is remembered.
			if status, answer := w.send(t, c.webhook); status != http.StatusOK || !strings.Contains(answer, "received before") || len(w.hinter.got) != 1 {
				t.Errorf("replayed: %d %s", status, answer)
			}
			// Without its signature it is refused, even after a change of one byte.
			forged := c.webhook
			forged.body += " "
			if forged.header["X-Gitlab-Token"] != "" {
				forged.header = with(forged.header, "X-Gitlab-Token", secret+"x")
			}
			if status, _ := w.send(t, forged); status != http.StatusUnauthorized || len(w.hinter.got) != 1 {
				t.Errorf("forged: %d", status)
			}
			for name := range c.header {
				if lower := strings.ToLower(name); strings.Contains(lower, "signature") || strings.Contains(lower, "token") {
					forged := c.webhook
					forged.header = with(c.header, name, "")
					if status, _ := w.send(t, forged); status != http.StatusUnauthorized {
						t.Errorf("without %s: %d", name, status)
					}
				}
			}
		})
	}
}

func TestWebhooksThatAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	github := func(body string) webhook {
		return webhook{"/hints/github", body, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, body), "X-GitHub-Event": "push"}}
	}
	plain := func(body string) webhook {
		return webhook{"/hints/plain", body, map[string]string{"X-Hint-Signature": mac(secret, body)}}
	}
	githubRepository := func(action string) webhook {
		body := `{"action": "` + action + `", ` + githubPush[1:]
		return webhook{"/hints/github", body, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, body), "X-GitHub-Event": "repository"}}
	}
	for name, c := range map[string]struct {
		webhook
		status int
		says   string
	}{
		"unknown source":      {webhook{"/hints/sourceforge", "{}", nil}, http.StatusNotFound, "no source"},
		"a path below":        {webhook{"/hints/github/x", "{}", nil}, http.StatusNotFound, "no source"},
		"no path":             {webhook{"/hints/", "{}", nil}, http.StatusNotFound, "no source"},
		"no signature":        {webhook{"/hints/github", githubPush, nil}, http.StatusUnauthorized, "signature"},
		"another forge's":     {webhook{"/hints/github", githubPush, map[string]string{"X-Gitlab-Token": secret}}, http.StatusUnauthorized, "signature"},
		"SHA-1":               {webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature": "sha1=00"}}, http.StatusUnauthorized, "signature"},
		"an old date":         {webhook{"/hints/plain", plainHint, standard(secret, "x", now.Add(-6*time.Minute), plainHint)}, http.StatusUnauthorized, "signature"},
		"a date to come":      {webhook{"/hints/plain", plainHint, standard(secret, "x", now.Add(6*time.Minute), plainHint)}, http.StatusUnauthorized, "signature"},
		"another host":        {github(strings.ReplaceAll(githubPush, "forge.example", "other.example")), http.StatusForbidden, "hosts"},
		"a host's name twice": {github(strings.ReplaceAll(githubPush, "https://forge.example", "https://forge.example@other.example")), http.StatusForbidden, "hosts"},
		"a host that ends so": {github(strings.ReplaceAll(githubPush, "forge.example", "xforge.example")), http.StatusForbidden, "hosts"},
		"the domain itself":   {github(strings.ReplaceAll(githubPush, "forge.example", "below.example")), http.StatusForbidden, "hosts"},
		"a file":              {github(strings.ReplaceAll(githubPush, "https://forge.example", "file://")), http.StatusBadRequest, "host"},
		"no JSON":             {github("{"), http.StatusBadRequest, "not JSON"},
		"deep":                {github(strings.Repeat("[", 1<<20)), http.StatusBadRequest, "not JSON"},
		"a wrong type":        {github(`{"repository": {"html_url": 5}}`), http.StatusBadRequest, "html_url"},
		"no URL":              {github(`{"repository": {}}`), http.StatusBadRequest, "no URL"},
		"a password":          {github(strings.ReplaceAll(githubPush, "https://", "https://u:p@")), http.StatusBadRequest, "password"},
		"too large":           {github(strings.Repeat(" ", 25<<20+1)), http.StatusRequestEntityTooLarge, "bytes"},
		"another's secret":    {webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac("a-secret-of-somebody-else", githubPush)}}, http.StatusUnauthorized, "another secret"},
		"SHA-1 as SHA-256":    {webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha1=" + mac(secret, githubPush)[:40]}}, http.StatusUnauthorized, "wrong"},
		"an empty secret":     {webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac("", githubPush)}}, http.StatusUnauthorized, "wrong"},
		"no field payload":    {webhook{"/hints/github", "x=1", map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, "x=1"), "X-GitHub-Event": "push", "Content-Type": "application/x-www-form-urlencoded"}}, http.StatusBadRequest, "no field payload"},
		"scp's form":          {github(strings.ReplaceAll(githubPush, "https://forge.example/", "git@forge.example:")), http.StatusBadRequest, "no host"},
		"a script":            {github(strings.ReplaceAll(githubPush, "https://forge.example/", "javascript:")), http.StatusBadRequest, "no host"},
		"no ASCII":            {github(strings.ReplaceAll(githubPush, "forge.example", "förge.example")), http.StatusForbidden, "hosts"},
		"an escaped path":     {webhook{"/hints/git%68ub/%2e%2e", "{}", nil}, http.StatusNotFound, "no source"},
		"private":             {github(strings.ReplaceAll(githubPush, "false", "true")), http.StatusOK, "private"},
		"a private owner":     {webhook{"/hints/gitea", giteaInternal, map[string]string{"X-Gitea-Signature": mac(secret, giteaInternal), "X-Gitea-Event": "push"}}, http.StatusOK, "private"},
		"ping":                {webhook{"/hints/github", "{}", map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, "{}"), "X-GitHub-Event": "ping"}}, http.StatusOK, "changes nothing"},
		"archived":            {githubRepository("archived"), http.StatusOK, "changes nothing"},
		"deleted":             {githubRepository("deleted"), http.StatusOK, "changes nothing"},
		"privatized":          {githubRepository("privatized"), http.StatusOK, "changes nothing"},
		"a star":              {webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubPush), "X-GitHub-Event": "star"}}, http.StatusOK, "changes nothing"},
		"a test of Bitbucket": {webhook{"/hints/bitbucket", `{"test": true}`, map[string]string{"X-Hub-Signature": "sha256=" + mac(secret, `{"test": true}`), "X-Event-Key": "diagnostics:ping"}}, http.StatusOK, "changes nothing"},
		"a project's name":    {webhook{"/hints/gitlab", `{"event_name": "project_rename", "path_with_namespace": "u/q"}`, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "System Hook"}}, http.StatusOK, "changes nothing"},
		"plain, no date":      {plain(`{"hints": [{"url": "https://forge.example/p"}]}`), http.StatusBadRequest, "changed_at"},
		"plain, none":         {plain(`{}`), http.StatusBadRequest, "no hints"},
		"plain, too many":     {plain(`{"hints": [` + strings.Repeat(`{"url": "https://forge.example/p", "changed_at": "2026-01-31T11:00:00Z"},`, 1000) + `{}]}`), http.StatusBadRequest, "at most 1000"},
		"plain, many values":  {plain(`{"hints": [` + strings.Repeat(`{},`, 1<<20) + `{}]}`), http.StatusBadRequest, "at most 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebhookWorld(t)
			if status, answer := w.send(t, c.webhook); status != c.status || !strings.Contains(answer, c.says) || len(w.hinter.got) > 0 || strings.Contains(answer, secret) {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	w := newWebhookWorld(t)
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/hints/github", nil))
	if out.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", out.Code)
	}
}

// A webhook that couldn't be written is not taken for a replay when it comes again.
func TestWebhookAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	h := webhook{"/hints/gitlab", gitlabPush, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"}}
	w.hinter.fail = errors.New("password=s3cret")
	if status, answer := w.send(t, h); status != http.StatusServiceUnavailable || strings.Contains(answer, "s3cret") {
		t.Errorf("%d %s", status, answer)
	}
	w.hinter.fail = nil
	if status, answer := w.send(t, h); status != http.StatusOK || len(w.hinter.got) != 1 {
		t.Errorf("%d %s", status, answer)
	}
	w.now = w.now.Add(3 * time.Hour)
	if _, answer := w.send(t, h); !strings.Contains(answer, `"moved":1`) {
		t.Errorf("hours later: %s", answer)
	}
}

// A webhook of an origin that nobody listed can be sent again, once a lister lists it.
func TestWebhookOfAnUnknownOriginAgain(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	push := webhook{"/hints/gitlab", gitlabPush, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"}}
	w.hinter.unknown = true
	if _, answer := w.send(t, push); !strings.Contains(answer, `"unknown":1`) {
		t.Error(answer)
	}
	w.hinter.unknown = false
	if _, answer := w.send(t, push); !strings.Contains(answer, `"moved":1`) {
		t.Error(answer)
	}
	if _, answer := w.send(t, push); !strings.Contains(answer, "received before") {
		t.Error(answer)
	}
}

// Bodies that come slowly keep no room that others need, and release it at their end. Names of sources don't grow.
func TestSlowWebhooksLeaveRoom(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	gate := make(chan struct{})
	var reading, wait sync.WaitGroup
	reading.Add(1000)
	for range 1000 { // of an unknown size each
		wait.Go(func() {
			out, body := httptest.NewRecorder(), &stalled{began: sync.OnceFunc(reading.Done), gate: gate}
			w.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hints/github", body))
			if out.Code != http.StatusBadRequest || !strings.Contains(out.Body.String(), "can't be read") {
				t.Errorf("%d %s", out.Code, out.Body)
			}
		})
	}
	reading.Wait()
	if room := hints.Room(w.Webhooks); room != 64<<20-1000*8<<10 {
		t.Errorf("%d bytes of room are left beside 1000 bodies that come slowly", room)
	}
	large := webhook{"/hints/github", githubLarge, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubLarge), "X-GitHub-Event": "push"}}
	if status, answer := w.send(t, large); status != http.StatusOK {
		t.Errorf("beside slow ones: %d %s", status, answer)
	}
	close(gate)
	wait.Wait()
	if room := hints.Room(w.Webhooks); room != 64<<20 {
		t.Errorf("%d bytes of room are left at the end", room)
	}
	for i := range 100_000 {
		if status, _ := w.send(t, webhook{fmt.Sprint("/hints/s", i), "", nil}); status != http.StatusNotFound {
			t.Fatal(status)
		}
	}
	if families, err := w.reg.Gather(); err != nil || len(families) != 1 || len(families[0].GetMetric()) > 4 {
		t.Errorf("%v (%v)", families, err)
	}
}

// Large bodies of strangers that don't end leave room for addresses that signed rightly.
func TestStrangersLeaveRoom(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	push := webhook{"/hints/github", githubPush, map[string]string{"X-Hub-Signature-256": "sha256=" + mac(secret, githubPush), "X-GitHub-Event": "push"}}
	if status, answer := w.send(t, push); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	w.from = "192.0.2.9/32"
	gate := make(chan struct{})
	var reading, wait sync.WaitGroup
	reading.Add(2)
	for range 2 {
		wait.Go(func() {
			body := io.MultiReader(strings.NewReader(strings.Repeat(" ", 15<<20)), &stalled{began: sync.OnceFunc(reading.Done), gate: gate})
			w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hints/github", body))
		})
	}
	reading.Wait()
	if status, answer := w.send(t, push); status != http.StatusServiceUnavailable {
		t.Errorf("of a stranger beside 30 MiB: %d %s", status, answer)
	}
	w.from = "192.0.2.1/32"
	if status, answer := w.send(t, push); status != http.StatusOK {
		t.Errorf("beside strangers: %d %s", status, answer)
	}
	close(gate)
	wait.Wait()
	w.from = "192.0.2.9/32"
	if status, answer := w.send(t, push); status != http.StatusOK {
		t.Errorf("of a stranger afterwards: %d %s", status, answer)
	}
}

// stalled is a body of which nothing comes until gate is closed.
type stalled struct {
	began func()
	gate  chan struct{}
}

func (s *stalled) Read([]byte) (int, error) {
	s.began()
	<-s.gate
	return 0, io.ErrUnexpectedEOF
}

// A source has its hints a second, and wrong signatures stop their address.
func TestWebhooksAreLimited(t *testing.T) {
	t.Parallel()
	w := newWebhookWorld(t)
	push := func(i int) int {
		body := strings.Replace(gitlabPush, "u/p", fmt.Sprint("u/p", i), 1)
		status, _ := w.send(t, webhook{"/hints/gitlab", body, map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event": "Push Hook"}})
		return status
	}
	accepted := 0
	for i := range 300 {
		if push(i) == http.StatusOK {
			accepted++
		}
	}
	if accepted != 200 { // two seconds' worth at once
		t.Errorf("%d of 300 at once are accepted, want 200", accepted)
	}
	w.now = w.now.Add(time.Second)
	if status := push(1000); status != http.StatusOK {
		t.Errorf("a second later: %d", status)
	}
	wrong := func() (unsigned, limited int) {
		for range 200 {
			switch status, _ := w.send(t, webhook{"/hints/gitlab", gitlabPush, nil}); status {
			case http.StatusUnauthorized:
				unsigned++
			case http.StatusTooManyRequests:
				limited++
			}
		}
		return unsigned, limited
	}
	// Anybody may make the addresses of a forge send webhooks with wrong signatures.
	if unsigned, limited := wrong(); unsigned != 200 || limited != 0 {
		t.Errorf("beside right signatures, %d wrong ones were checked, %d were limited", unsigned, limited)
	}
	if w.now = w.now.Add(time.Second); push(1001) != http.StatusOK {
		t.Error("wrong signatures stop those of a forge that signed rightly")
	}
	w.from = "192.0.2.2/32"
	if unsigned, limited := wrong(); unsigned > 45 || limited < 155 {
		t.Errorf("%d wrong signatures were checked, %d were limited", unsigned, limited)
	}
	w.from = "192.0.2.1/32"
	w.now = w.now.Add(2 * time.Hour)
	if unsigned, limited := wrong(); unsigned > 45 || limited < 155 {
		t.Errorf("two hours after a right signature, %d wrong ones were checked, %d were limited", unsigned, limited)
	}
}

// A secret that is empty signs nothing.
func TestEmptySecretSignsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range hints.Forges() {
		header := http.Header{}
		for _, name := range []string{"X-Hint-Signature", "X-Hub-Signature-256", "X-Hub-Signature", "X-Gitea-Signature", "X-Forgejo-Signature"} {
			header.Set(name, "sha256="+mac("", "{}"))
		}
		for name, value := range standard("", "id", time.Now(), "{}") {
			header.Set(name, value)
		}
		if hints.Signed(kind, header, []byte("{}"), "") {
			t.Errorf("%s: a webhook signed with nothing is accepted", kind)
		}
	}
}

// Whatever a signed body is, it is decoded without a panic, and its hints are within the bounds.
func FuzzWebhooks(f *testing.F) {
	for _, body := range []string{githubPush, gitlabPush, gitlabSystem, giteaPush, bitbucketPush, dataCenter, plainHint, "payload=%7B%7D", "{}", "[]", `{"hints":[null]}`} {
		f.Add("push", "application/json", []byte(body))
		f.Add("repository", "application/json", []byte(body))
		f.Add("repo:push", "application/x-www-form-urlencoded", []byte("payload="+url.QueryEscape(body)))
	}
	f.Fuzz(func(t *testing.T, event, contentType string, body []byte) {
		for _, kind := range hints.Forges() {
			header := http.Header{"Content-Type": {contentType}}
			for _, name := range []string{"X-GitHub-Event", "X-Gitea-Event", "X-Forgejo-Event", "X-Event-Key", "X-Gitlab-Event"} {
				header.Set(name, event)
			}
			all, err := hints.HintsOf(kind, header, body)
			if len(all) > model.MaxHints || (err == nil) != (len(all) > 0) {
				t.Errorf("%s: %d hints, %v", kind, len(all), err)
			}
		}
		header := http.Header{}
		header.Set("Webhook-Id", event)
		header.Set("Webhook-Timestamp", contentType)
		header.Set("Webhook-Signature", string(body))
		header.Set("X-Hub-Signature-256", string(body))
		for _, kind := range hints.Forges() {
			if hints.Signed(kind, header, body, secret) {
				t.Errorf("%s accepts %q", kind, body)
			}
		}
	})
}
