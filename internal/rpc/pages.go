package rpc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"swh-scheduler/sql/migrate"
)

const indexPage = `<html>
<head><title>Software Heritage scheduler RPC server</title></head>
<body>
<p>This is a
<a href="https://www.softwareheritage.org/">Software Heritage</a>
scheduler RPC server. Its calls are listed in its <a href="/site-map">site map</a>.</p>
</body>
</html>
`

// index is a page for people who open the server in a browser.
func index(w http.ResponseWriter, r *http.Request) {
	respond(w, r, http.StatusOK, "text/html; charset=utf-8", []byte(indexPage))
}

// siteMap lists the calls.
func siteMap(w http.ResponseWriter, r *http.Request) {
	out := newEncoder(negotiate(r.Header.Get("Accept")), nil)
	listing(&kind[*endpoint]{write: func(f *fields, ep **endpoint) {
		rule := "/" + (*ep).path
		f.out.openDict()
		required(f, "rule", text, &rule)
		required(f, "description", text, &(*ep).description)
		f.out.closeDict()
	}}).write(&fields{out: out}, &endpoints)
	body, _ := out.finish()
	respond(w, r, http.StatusOK, out.contentType(), body)
}

// healthy answers whether the daemon is alive: this port is served, and no call is stuck.
func (s *Server) healthy(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusOK, "ok\n"
	if stuck := s.Health.StuckLoops(); len(stuck) > 0 {
		status, text = http.StatusServiceUnavailable, strings.Join(stuck, "\n")+"\n"
	}
	respond(w, r, status, "text/plain; charset=utf-8", []byte(text))
}

// ready answers whether calls can be answered: the database is the scheduler's, and the server is not stopping.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	status, text := http.StatusServiceUnavailable, "stopping\n"
	if !s.stopping.Load() {
		switch err := s.Store.CheckVersion(ctx); {
		case err == nil:
			status, text = http.StatusOK, "ok\n"
		case errors.Is(err, migrate.ErrNotMigrated) || errors.Is(err, migrate.ErrUnsupported):
			text = "the database is not the scheduler's, or not migrated\n"
		default:
			text = "the database cannot be reached\n"
		}
	}
	respond(w, r, status, "text/plain; charset=utf-8", []byte(text))
}
