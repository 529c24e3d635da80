package dashboard

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a dashboard with a database of its own.
type site struct {
	*Dashboard
	t      *testing.T
	dsn    string
	config *config.Config
	store  *db.Store
}

// newSite creates a database, runs statements on it, and returns a dashboard of it.
func newSite(t *testing.T, change func(*Options), statements ...string) *site {
	t.Helper()
	s := siteOf(t, testenv.Database(t), change)
	s.exec(statements...)
	return s
}

// siteOf returns a dashboard of a database.
func siteOf(t *testing.T, dsn string, change func(*Options)) *site {
	t.Helper()
	s := &site{t: t, dsn: dsn, config: config.Default()}
	s.store = testenv.OpenLocal(t, s.dsn, postgres.Options{Command: "dashboard"})
	o := Options{
		Reads: s.store, Acts: s.store, Config: s.config, Version: "test",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&o)
	}
	o.Access.Hosts = []string{"dashboard.example"}
	var err error
	if s.Dashboard, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.Patient()
	return s
}

// exec runs statements on its own connection, as they may be long. On a busy machine the store's pool might take a long
// statement's connection for a silent one.
func (s *site) exec(statements ...string) {
	s.t.Helper()
	conn := testenv.Connect(s.t, s.dsn)
	for _, statement := range statements {
		testenv.Exec(s.t, conn, statement)
	}
	if err := conn.Close(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	s.forget()
}

// ask sends a request with headers, names and values in turn. It returns the response with its body read.
func (s *site) ask(method, path string, form url.Values, headers ...string) (answer *http.Response, body string) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "http://dashboard.example"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return w.Result(), string(text)
}

// get returns the body of an existing page.
func (s *site) get(path string, headers ...string) string {
	s.t.Helper()
	answer, body := s.ask(http.MethodGet, path, nil, headers...)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s\n%s", path, answer.Status, body)
	}
	return body
}

// has checks that a page contains texts, and has the layout of all pages.
func (s *site) has(path string, texts ...string) (body string) {
	s.t.Helper()
	body = s.get(path)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.t.Errorf("%s has no %q:\n%s", path, text, body)
		}
	}
	return body
}
