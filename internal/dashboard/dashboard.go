package dashboard

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/service"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/sessions"
)

// Timeout limits the reading of one page, and each of its statements.
const Timeout = 5 * time.Second

//go:embed templates static
var files embed.FS

// Options are the inputs of New.
type Options struct {
	Reads  *db.Store // for pages; may be a replica
	Acts   *db.Store // for actions
	Config *config.Config
	Broker status.QueueSource // nil: there is no broker
	// Revoke makes workers drop the messages with these Celery ids. With terminate, they also kill the processes that
	// run them. nil: no broker is configured.
	Revoke  func(ctx context.Context, ids []string, terminate bool) error
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: no metrics
	Version string
	Base    string // prefix of all paths, such as /dashboard
	Access  Access
}

// Dashboard serves the pages.
type Dashboard struct {
	Options
	handler   http.Handler
	templates map[string]templates // by page path
	data      shared
	now       *now
	metrics   *metrics
	timeout   time.Duration    // Timeout, except in tests
	userTime  time.Duration    // userTime, except in tests
	refusals  service.LogLimit // for failed logins
	failures  service.LogLimit // for failed steps of actions
	unread    service.LogLimit // for failed parts of pages
	streams   streams
	asked     chan struct{} // an element for each page that is read or waits
	readings  chan struct{} // an element for each page that is read
	work      chan struct{} // wakes Work
	stopped   context.Context
	stop      context.CancelFunc
}

func New(o Options) (*Dashboard, error) {
	d := &Dashboard{Options: o, templates: map[string]templates{}, timeout: Timeout, userTime: userTime}
	d.asked, d.readings, d.work = make(chan struct{}, maxAsked), make(chan struct{}, maxReadings), make(chan struct{}, 1)
	d.Access.prepare(sessions.New(o.Acts.DB))
	d.now, d.metrics = d.newNow(), newMetrics(o.Metrics)
	d.stopped, d.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	for _, p := range pages {
		var err error
		if d.templates[p.Path], err = d.parse(p.Template); err != nil {
			return nil, fmt.Errorf("page %s: %w", p.Path, err)
		}
		mux.HandleFunc("GET "+o.Base+exact(p.Path), d.metrics.timed(p.Path, func(w http.ResponseWriter, r *http.Request) { d.show(p, w, r) }))
	}
	for _, a := range actions {
		mux.HandleFunc("POST "+o.Base+exact(a.Path), func(w http.ResponseWriter, r *http.Request) { d.act(a, w, r) })
	}
	mux.HandleFunc("GET "+o.Base+"/static/{file}", d.static)
	mux.HandleFunc("GET "+o.Base+"/reports/{file}", d.report)
	mux.HandleFunc(o.Base+"/", func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, Errorf(http.StatusNotFound, "There is no page %s.", r.URL.Path))
	})
	var err error
	if d.templates[errorPage.Path], err = d.parse(errorPage.Template); err != nil {
		return nil, err
	}
	d.handler = mux
	return d, nil
}

// exact makes the pattern of a path that ends with a slash match that path only.
func exact(path string) string {
	if path[len(path)-1] == '/' {
		return path + "{$}"
	}
	return path
}

// Stop ends all event streams.
func (d *Dashboard) Stop() { d.stop() }

// headers are set on every response. A page loads only its own style and scripts.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
	"Vary":                         "Accept, X-Fragment, Cookie",
}

// ServeHTTP serves what is below the base path.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if !d.Access.Hosts.Has(r.Host) {
		d.fail(w, r, Errorf(http.StatusMisdirectedRequest, "This dashboard is not known as %s. Use its address, or add the name to the configuration (dashboard.hosts).", r.Host))
		return
	}
	d.handler.ServeHTTP(w, r)
}

// static serves the style and the scripts, which are part of the program.
func (d *Dashboard) static(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=300")
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("file"))
}
