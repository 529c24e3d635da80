package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/hints"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
)

// Bounds of a connection. A call may take long (counting all origins does); its headers and a silent connection may
// not.
const (
	headerTimeout    = 10 * time.Second
	smallBodyTimeout = 10 * time.Second // of a body's first smallBody bytes
	bodyTimeout      = time.Minute      // of the rest, and of an answer
	callTimeout      = 10 * time.Minute
	idleTimeout      = 2 * time.Minute
	maxHeaders       = 64 << 10
)

// maxConnections is the most open connections.
const maxConnections = 2048

// SitePath is the path of a server's Site.
const SitePath = "/dashboard"

// Site is served beside the calls, and checks credentials by itself. Stop ends answers that do not end by
// themselves.
type Site interface {
	http.Handler
	Stop()
}

// DefaultMaxBody is the greatest size of a request's body, decompressed.
const DefaultMaxBody = 64 << 20

// DefaultMaxAnswer is the most bytes of the rows of an answer.
const DefaultMaxAnswer = 64 << 20

// Options make a Server.
type Options struct {
	Address     string // host:port
	Store       *db.Store
	Log         *slog.Logger
	Registry    *prometheus.Registry // for the server's own metrics, and what /metrics shows
	Credentials Credentials
	Clients     []config.Client // with credentials and roles of their own; who has Credentials has all roles
	// Reread returns new Credentials and Clients, if they have changed; nil: they never do.
	Reread    func() (Credentials, []config.Client, bool, error)
	ClientCA  *Authority    // of the clients' certificates; nil: none is asked for. TLS is needed
	Proxies   Proxies       // proxies that are trusted for the address of a request
	Hosts     service.Hosts // host names of browsers' requests for metrics and health, besides addresses
	TLS       *tls.Config   // nil: HTTP without TLS
	LogCalls  bool          // at level debug
	MaxBody   int64         // 0: DefaultMaxBody; all large bodies in hand together have as much room
	MaxRows   int           // of an answer; 0: DefaultMaxRows
	MaxAnswer int64         // bytes of the rows of an answer; 0: DefaultMaxAnswer; all in hand have twice as much

	Door       *migrate.Door // to the database, for daemons; nil: as the role of "migrate --door"
	DoorLimits door.Limits   // of connections through it

	Site   Site            // for people, below SitePath; nil: none
	Hints  []hints.Source  // of webhooks, below hints.Path
	Health *service.Health // of the daemon; nil: the server alone is looked at

	roomWait   time.Duration // 0: defaultRoomWait
	headerTime time.Duration // 0: headerTimeout
	smallTime  time.Duration // 0: smallBodyTimeout
	mostOpen   int           // connections; 0: maxConnections
	followTime time.Duration // 0: followEvery
	doorTimes  door.Times
}

// Server is the RPC server.
type Server struct {
	Options
	metrics  *metrics
	refusals service.LogLimit
	guesses  Guesses
	access   atomic.Pointer[access]
	checks   *passwordChecks
	listers  listerNames
	batcher  *hints.Batcher
	denials  service.LogLimit
	room     room
	door     *door.Server
	handler  http.Handler
	stopping atomic.Bool
	listener net.Listener
}

// Listen makes a server and opens its port, so that an address that is in use or
// not ours is an error at once. Run serves it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	o.MaxBody, o.MaxRows, o.MaxAnswer = cmp.Or(o.MaxBody, DefaultMaxBody), cmp.Or(o.MaxRows, DefaultMaxRows), cmp.Or(o.MaxAnswer, DefaultMaxAnswer)
	o.headerTime, o.smallTime = cmp.Or(o.headerTime, headerTimeout), cmp.Or(o.smallTime, smallBodyTimeout)
	may, err := newAccess(o.Credentials, o.Clients)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Address, err)
	}
	if o.TLS != nil && o.ClientCA != nil {
		o.TLS = o.ClientCA.ask(o.TLS)
	}
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}
	s := &Server{Options: o, batcher: hints.NewBatcher(o.Store), checks: newPasswordChecks(), listener: listener, metrics: newMetrics(o.Registry), room: newRoom(o.MaxBody, 2*o.MaxAnswer, cmp.Or(o.roomWait, defaultRoomWait))}
	s.access.Store(may)
	s.guesses.AcceptLastRight = true // otherwise one of a proxy's clients could keep out all
	if s.Door == nil {
		if s.Door, err = migrate.NewDoor(o.Store.DB, ""); err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	s.door = door.New(door.Options{Database: s.Door, Log: o.Log, Registry: o.Registry, Limits: o.DoorLimits, Times: o.doorTimes, From: s.Proxies.Source, Who: s.visitor})
	s.handler = s.routes()
	return s, nil
}

// Addr is the listening address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// routes returns the paths of the server. Its health is shown without credentials; so is the page that the archive's
// deployment takes for it.
func (s *Server) routes() http.Handler {
	guarded := http.NewServeMux()
	for _, ep := range endpoints {
		guarded.HandleFunc("/"+ep.path, func(w http.ResponseWriter, r *http.Request) { s.serve(ep, w, r) })
	}
	guarded.Handle("GET "+door.Path, s.only(daemon, doorName, s.door))
	guarded.HandleFunc("GET /site-map", siteMap)
	ours := func(h http.Handler) http.Handler { return s.Hosts.Guard("metrics.hosts", s.Log, h) } // calls are POST, and refused with Origin
	guarded.Handle("GET /metrics", s.only(reader|operator, "metrics", ours(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{}))))
	guarded.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, httpError(http.StatusNotFound, "NotFound", "The requested URL was not found on the server."))
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.Handle("GET /healthz", ours(http.HandlerFunc(s.healthy)))
	mux.Handle("GET /readyz", ours(http.HandlerFunc(s.ready)))
	if s.Site != nil {
		mux.Handle(SitePath+"/", s.Site)
	}
	// The signatures of webhooks are their credentials.
	mux.Handle(hints.Path, hints.New(hints.Options{Sources: s.Hints, Hints: s.batcher, From: s.Proxies.Source, Log: s.Log, Reg: s.Registry}))
	mux.Handle("/", s.guard(guarded))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.NoSniff(w)
		mux.ServeHTTP(w, r)
	})
}

// Run serves until ctx ends. Then it takes no new connections and finishes running calls. Calls that outlast the
// grace period of its group are cut off, and their transactions rolled back.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.headerTime,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + callTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // of single connections
		ConnState:         service.BoundConnections(cmp.Or(s.mostOpen, maxConnections)),
	}
	s.announce()
	defer context.AfterFunc(ctx, func() { s.stopping.Store(true) })()
	if s.Site != nil {
		server.RegisterOnShutdown(s.Site.Stop)
	}
	defer service.Background(ctx, s.follow)()
	doorClosed := make(chan error, 1)
	go func() { doorClosed <- s.door.Run(ctx) }()
	err := service.Serve(ctx, server, s.listener)
	if ctx.Err() == nil { // the listener failed, so that the daemon ends
		return err
	}
	return errors.Join(err, <-doorClosed)
}

// Open returns the listening address if that is beyond loopback and calls need no credentials, otherwise "".
func (s *Server) Open() string {
	if tcp, ok := s.Addr().(*net.TCPAddr); !ok || tcp.IP.IsLoopback() || s.access.Load().asks() {
		return ""
	}
	return s.Addr().String()
}

// announce logs the listening address and who can use it.
func (s *Server) announce() {
	level, message := slog.LevelInfo, "listening"
	if tcp, ok := s.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		level, message = slog.LevelWarn, "listening on all network interfaces"
	}
	if s.Open() != "" {
		level = slog.LevelWarn
		message += ": whoever reaches this port can read and write the scheduler"
	}
	s.Log.Log(context.Background(), level, message, "address", s.Addr().String(), "tls", s.TLS != nil, "credentials", s.access.Load().asks())
}
