package door

import (
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// The reasons why a connection is refused.
const (
	refusedClosed    = "closed"      // the door is
	refusedStopping  = "stopping"    // the RPC server is
	refusedStarting  = "starting"    // too many start at once
	refusedStartup   = "startup"     // the start-up has a form that is not allowed, or is too slow
	refusedAll       = "all"         // max_connections
	refusedByClient  = "per_client"  // max_per_client
	refusedByAddress = "per_address" // max_per_address
	refusedDatabase  = "database"    // the database is unavailable, or refuses
	refusedRole      = "role"        // the role has more rights than it needs
)

var refusals = []string{
	refusedClosed, refusedStopping, refusedStarting, refusedStartup, refusedAll, refusedByClient, refusedByAddress, refusedDatabase, refusedRole,
}

// maxLabels bounds the clients with series of their own; further clients are "other".
const maxLabels = 32

// labelled matches names of clients that are valid as a label.
var labelled = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$`)

type metrics struct {
	open    *prometheus.GaugeVec
	opened  *prometheus.CounterVec
	bytes   *prometheus.CounterVec
	refused *prometheus.CounterVec
	cancels prometheus.Counter

	mu     sync.Mutex
	labels map[string]*series
}

// series are those of a client.
type series struct {
	open                   prometheus.Gauge
	opened                 prometheus.Counter
	fromClient, fromServer prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	f := promauto.With(registry)
	m := &metrics{
		open:    f.NewGaugeVec(prometheus.GaugeOpts{Name: "swh_scheduler_rpc_door_open", Help: "Connections to the database through the RPC server that are open, by client."}, []string{"client"}),
		opened:  f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_rpc_door_opened_total", Help: "Connections to the database through the RPC server, by client."}, []string{"client"}),
		bytes:   f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_rpc_door_bytes_total", Help: "Bytes passed through to the database (in) and from it (out), by client."}, []string{"client", "direction"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{Name: "swh_scheduler_rpc_door_refused_total", Help: "Connections to the database that the RPC server refused, by reason."}, []string{"reason"}),
		cancels: f.NewCounter(prometheus.CounterOpts{Name: "swh_scheduler_rpc_door_cancels_total", Help: "Cancel requests passed to the database."}),
		labels:  map[string]*series{},
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// of returns the series of a client. The client's name is any text.
func (m *metrics) of(client string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.labels[client]; s != nil {
		return s
	}
	if len(m.labels) >= maxLabels || !labelled.MatchString(client) {
		client = "other"
	}
	s := m.labels[client]
	if s == nil {
		s = &series{
			open: m.open.WithLabelValues(client), opened: m.opened.WithLabelValues(client),
			fromClient: m.bytes.WithLabelValues(client, "in"), fromServer: m.bytes.WithLabelValues(client, "out"),
		}
		m.labels[client] = s
	}
	return s
}
