package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

const (
	startTimeout = 10 * time.Second
	writeTimeout = 45 * time.Second
	idleTimeout  = 10 * time.Minute
	aliveTime    = 20 * time.Second // proxies close connections that are silent for a minute, some after 30 s
	wayKept      = 2 * time.Second  // how long the door's role is cached
	idleCheck    = 30 * time.Second
	cancelTime   = 5 * time.Second
	deniedTime   = 10 * time.Second
)

// Options make a Server.
type Options struct {
	Database *migrate.Door
	Log      *slog.Logger
	Registry prometheus.Registerer
	Limits   Limits
	From     func(*http.Request) netip.Prefix // source network of a request
	Who      func(*http.Request) Visitor

	Times Times
}

// Times are time limits. 0 is the default.
type Times struct {
	Start  time.Duration // from the upgrade to the start-up message, and connecting to the database; 10 s
	Write  time.Duration // for a client to read an answer; 45 s
	Idle   time.Duration // for a client without messages, outside of transactions; 10 minutes
	Denied time.Duration // for a client that is no longer permitted, in a transaction; 10 s
	Alive  time.Duration // silence of the database after which the client gets a keepalive message; 20 s
}

// Server is the server's side of the door: an http.Handler of Path.
type Server struct {
	Options
	metrics  *metrics
	counts   *counts
	sessions sessions
	seldom   service.LogLimit
	working  context.Context // of what connects to the database
	stopWork context.CancelFunc

	mu   sync.Mutex      // of ways
	ways map[string]*way // by daemon; "" for all
}

// way is a connection configuration of the database.
type way struct {
	config *pgconn.Config
	err    error
	read   time.Time
}

// New returns a server, which serves until Stop.
func New(o Options) *Server {
	o.Times.Start, o.Times.Write, o.Times.Idle = cmp.Or(o.Times.Start, startTimeout), cmp.Or(o.Times.Write, writeTimeout), cmp.Or(o.Times.Idle, idleTimeout)
	o.Times.Alive, o.Times.Denied = cmp.Or(o.Times.Alive, aliveTime), cmp.Or(o.Times.Denied, deniedTime)
	o.Limits.Connections = cmp.Or(o.Limits.Connections, DefaultConnections)
	o.Limits.PerClient = cmp.Or(o.Limits.PerClient, DefaultPerClient)
	o.Limits.PerAddress = cmp.Or(o.Limits.PerAddress, DefaultPerAddress)
	s := &Server{Options: o, metrics: newMetrics(o.Registry), counts: newCounts(o.Limits), sessions: sessions{open: map[*session]struct{}{}}, ways: map[string]*way{}}
	s.working, s.stopWork = context.WithCancel(context.Background())
	return s
}

// Run ends clients that are idle for too long, until ctx ends. Then it refuses new clients and ends the sessions as
// soon as they are outside of transactions. Sessions that outlast the context of work in flight are cut off, and
// their transactions rolled back.
func (s *Server) Run(ctx context.Context) error {
	for service.Sleep(ctx, min(idleCheck, s.Times.Idle)) == nil {
		before := time.Now().Add(-s.Times.Idle).UnixNano()
		for _, one := range s.sessions.all() {
			one.stopIdle(before, fatal(codeIdle, "nothing was sent for %s", s.Times.Idle))
		}
	}
	inFlight := service.InFlight(ctx)
	defer context.AfterFunc(inFlight, s.stopWork)()
	s.sessions.stop(inFlight)
	s.stopWork()
	return nil
}

// EndDenied ends the sessions of clients that are no longer permitted, as soon as they are outside of transactions,
// and after Times.Denied in any case.
func (s *Server) EndDenied() {
	for _, one := range s.sessions.all() {
		if !one.who.permitted(one.daemon) && one.denied.CompareAndSwap(false, true) {
			s.Log.Warn("a connection to the database ends, as its client may not use the door any more, or not as before", "client", one.who.Name, "daemon", one.daemon)
			time.AfterFunc(s.Times.Denied, one.close)
			go func() {
				defer s.recovered()
				one.stop(fatal(codeNoRole, "this client may not use the door any more, or not as before"))
			}()
		}
	}
}

// ServeHTTP accepts a client. Errors before the upgrade are HTTP's, later ones PostgreSQL's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) {
		w.Header().Set("Upgrade", Protocol)
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "This is the way to the database: it takes requests with Upgrade: "+Protocol+".", http.StatusUpgradeRequired)
		return
	}
	if r.Header.Get("Origin") != "" {
		http.Error(w, "Requests from a page in a browser are not answered.", http.StatusForbidden)
		return
	}
	if !s.sessions.enter() {
		s.refuse(w, refusedStopping, http.StatusServiceUnavailable, "The RPC server stops.")
		return
	}
	in := false
	defer func() {
		if !in {
			s.sessions.leave()
		}
	}()
	from, who := s.From(r), s.Who(r)
	started, ok := s.counts.start(from)
	if !ok {
		s.refuse(w, refusedStarting, http.StatusServiceUnavailable, "Too many connections to the database start at once; try again.")
		return
	}
	switch _, err := s.wayTo(r.Context(), "", false); {
	case errors.Is(err, migrate.ErrNoDoor):
		started()
		s.refuse(w, refusedClosed, http.StatusNotFound, sentence(err))
		return
	case err != nil:
		started()
		s.Log.Warn("the door's role can't be read", "error", err)
		s.refuse(w, refusedDatabase, http.StatusServiceUnavailable, "The RPC server can't reach its database, or not read the role of the door there; its log says why.")
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		started()
		http.Error(w, "The connection can't be upgraded: HTTP/1.1 is needed.", http.StatusHTTPVersionNotSupported)
		return
	}
	rest, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	client := &ahead{Conn: conn, ahead: slices.Clone(rest)}
	in = true
	go func() { // frees the request and its buffers
		defer s.sessions.leave()
		defer s.recovered()
		defer func() { _ = client.Close() }()
		s.serve(client, from, who, started)
	}()
}

// recovered logs a panic, which ends only its connection.
func (s *Server) recovered() {
	if p := recover(); p != nil {
		s.Log.Error("a connection to the database panicked", "panic", p, "stack", string(debug.Stack()))
	}
}

// refuse answers with a text before the upgrade.
func (s *Server) refuse(w http.ResponseWriter, reason string, status int, text string) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Upgrade", Protocol) // tells the client that the text is ours
	http.Error(w, text, status)
}

// sentence formats an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// ahead is a connection with bytes that were already read from it.
type ahead struct {
	net.Conn
	ahead []byte
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.ahead) > 0 {
		n := copy(p, a.ahead)
		if a.ahead = a.ahead[n:]; len(a.ahead) == 0 {
			a.ahead = nil
		}
		return n, nil
	}
	return a.Conn.Read(p)
}

// wayTo returns the connection configuration for a daemon, or for all if that is "". It reads the configuration
// again after wayKept, or if it is wrong. It keeps the old one while the read fails, as when calls use all
// connections of the store.
func (s *Server) wayTo(ctx context.Context, daemon string, wrong bool) (*pgconn.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.ways[daemon]
	if w == nil {
		w = new(way)
		s.ways[daemon] = w
	}
	if !wrong && time.Since(w.read) < wayKept {
		return w.config, w.err
	}
	timeout := s.Times.Start
	if w.config != nil {
		timeout = min(timeout, wayKept)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // other requests wait for the answer, too
	defer cancel()
	config, err := s.Database.Config(ctx, daemon)
	if w.config == nil || err == nil || errors.Is(err, migrate.ErrNoDoor) || errors.Is(err, migrate.ErrBadDoor) {
		w.config, w.err = config, err
	}
	w.read = time.Now()
	return w.config, w.err
}

// serve serves a connection after the upgrade.
func (s *Server) serve(client net.Conn, from netip.Prefix, who Visitor, started func()) {
	defer started()
	_ = client.SetDeadline(time.Now().Add(s.Times.Start)) // fails only if the client has disconnected
	if _, err := fmt.Fprintf(client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", Protocol); err != nil {
		return
	}
	message, err := receiveStartup(client)
	var start *pgproto3.StartupMessage
	switch m := message.(type) {
	case *pgproto3.CancelRequest:
		s.metrics.cancels.Inc()
		s.cancel(m.ProcessID, m.SecretKey)
		return
	case *pgproto3.StartupMessage:
		start = m
	}
	if start == nil {
		if errors.Is(err, io.EOF) { // a probe
			return
		}
		s.reject(client, refusedStartup, from, fatal(codeProtocol, "no start-up message of PostgreSQL's protocol came"), err)
		return
	}
	parameters, unknown, err := sessionOf(start)
	if err != nil {
		s.reject(client, refusedStartup, from, fatal(codeParameter, "%s", err), err)
		return
	}
	name := cmp.Or(parameters["application_name"], "unnamed")
	end, reason, text := s.counts.open(strings.TrimPrefix(who.Name+" "+name, " "), from)
	if end == nil {
		s.reject(client, reason, from, fatal(codeFull, "%s", text), nil)
		return
	}
	defer end()
	daemon := who.daemon(name)
	one, err := s.begin(client, start, parameters, unknown, daemon)
	if errors.Is(err, errGone) {
		return
	}
	if err != nil {
		reason, answer := failure(err)
		s.reject(client, reason, from, answer, err)
		return
	}
	defer one.close()
	one.series, one.who, one.daemon = s.metrics.of(name), who, daemon
	if !s.sessions.add(one) {
		one.farewell(fatal(codeStopped, "the RPC server stops"))
		return
	}
	defer s.sessions.remove(one)
	started()
	_ = client.SetDeadline(time.Time{})
	postgres.WatchSocket(client.(*ahead).Conn)
	one.series.opened.Inc()
	one.series.open.Inc()
	defer one.series.open.Dec()
	one.run()
}

// errGone is the error of a client that disconnected during its start.
var errGone = errors.New("the client is gone")

// begin connects a client to the database, as a daemon. The data of the start can be freed when it returns.
func (s *Server) begin(client net.Conn, start *pgproto3.StartupMessage, parameters map[string]string, unknown []string, daemon string) (*session, error) {
	server, err := s.connect(parameters, daemon)
	if err != nil {
		return nil, err
	}
	if err := welcome(client, start, server, unknown); err != nil {
		_ = server.Conn.Close()
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	pid, key := server.PID, server.SecretKey
	return &session{client: client, server: server.Conn, writeTime: s.Times.Write, alive: s.Times.Alive, recovered: s.recovered, cancel: func() { s.cancel(pid, key) }, state: state{status: server.TxStatus}}, nil
}

// reject ends a connection that has not started.
func (s *Server) reject(client net.Conn, reason string, from netip.Prefix, answer *pgproto3.ErrorResponse, err error) {
	s.metrics.refused.WithLabelValues(reason).Inc()
	if held, ok := s.seldom.Log(reason); ok {
		log := []any{"reason", reason, "address", from, "answer", answer.Message, "not_logged_before", held}
		if err != nil {
			log = append(log, "error", err.Error())
		}
		s.Log.Warn("a connection to the database was refused", log...)
	}
	_ = client.SetDeadline(time.Now().Add(farewellTimeout))
	_ = send(client, answer)
}

// connect connects to the database as a daemon.
func (s *Server) connect(parameters map[string]string, daemon string) (*pgconn.HijackedConn, error) {
	ctx, cancel := context.WithTimeout(s.working, s.Times.Start)
	defer cancel()
	for again := false; ; again = true {
		way, err := s.wayTo(ctx, daemon, again)
		if err != nil {
			return nil, err
		}
		config := way.Copy()
		config.RuntimeParams = maps.Clone(parameters)
		if config.RuntimeParams["application_name"] == "" {
			config.RuntimeParams["application_name"] = "swh-scheduler rpc-serve"
		}
		conn, err := pgconn.ConnectConfig(ctx, config)
		if wrong, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(wrong.Code, "28") && !again {
			continue // the password may be a new one
		}
		if err != nil {
			return nil, err
		}
		if err = s.Database.Check(ctx, conn); err == nil {
			err = conn.SyncConn(ctx)
		}
		var hijacked *pgconn.HijackedConn
		if err == nil {
			hijacked, err = conn.Hijack()
		}
		if err != nil {
			_ = conn.Close(ctx)
			return nil, err
		}
		_ = hijacked.Conn.SetDeadline(time.Time{})
		return hijacked, nil
	}
}

// failure returns the client's text for an error of connect.
func failure(err error) (reason string, answer *pgproto3.ErrorResponse) {
	answered, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, migrate.ErrNoDoor):
		return refusedClosed, fatal(codeNoRole, "%s", err)
	case errors.Is(err, migrate.ErrBadDoor):
		return refusedRole, fatal(codeNoRole, "%s", err)
	case ok && strings.HasPrefix(answered.Code, "28"):
		return refusedRole, fatal(codeNoRole, "PostgreSQL does not let the door's role in: %s", answered.Message)
	case ok:
		return refusedDatabase, fatal(answered.Code, "the RPC server's connection to PostgreSQL: %s", answered.Message)
	}
	return refusedDatabase, fatal(codeAway, "the RPC server can't reach PostgreSQL; its log says why")
}

// welcome sends the messages that begin a session.
func welcome(client net.Conn, start *pgproto3.StartupMessage, server *pgconn.HijackedConn, unknown []string) error {
	var messages []pgproto3.BackendMessage
	if start.ProtocolVersion != pgproto3.ProtocolVersion30 || unknown != nil {
		messages = append(messages, &pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: 0, UnrecognizedOptions: unknown})
	}
	messages = append(messages, &pgproto3.AuthenticationOk{})
	for name, value := range server.ParameterStatuses {
		messages = append(messages, &pgproto3.ParameterStatus{Name: name, Value: value})
	}
	messages = append(messages, &pgproto3.BackendKeyData{ProcessID: server.PID, SecretKey: server.SecretKey}, &pgproto3.ReadyForQuery{TxStatus: server.TxStatus})
	return send(client, messages...)
}

// cancel passes a cancel request on. The key may belong to a session of another RPC server, so cancel sends it to
// each server of the database's address, one of which has issued it.
func (s *Server) cancel(pid uint32, key []byte) {
	ctx, stop := context.WithTimeout(s.working, cancelTime)
	defer stop()
	way, err := s.wayTo(ctx, "", false)
	if err != nil {
		return
	}
	request, err := (&pgproto3.CancelRequest{ProcessID: pid, SecretKey: key}).Encode(nil)
	if err != nil {
		return
	}
	hosts := []*pgconn.FallbackConfig{{Host: way.Host, Port: way.Port}}
	var all sync.WaitGroup
	for _, host := range append(hosts, way.Fallbacks...) {
		network, address := pgconn.NetworkAddress(host.Host, host.Port)
		all.Go(func() {
			conn, err := way.DialFunc(ctx, network, address)
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if _, err := conn.Write(request); err == nil {
				_, _ = conn.Read(make([]byte, 1)) // wait until the server has passed it on
			}
		})
	}
	all.Wait()
}
