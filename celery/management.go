package celery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"swh-scheduler/internal/service"
)

// management queries RabbitMQ's management API. It is safe for concurrent use.
//
// After a time-out, further requests fail at once, and a background loop retries until the API answers. So a port
// that drops packets costs one time-out.
type management struct {
	url     string // empty: derived from the broker's nodes
	client  *http.Client
	nodes   []node
	timeout time.Duration
	service *service.Service // state of the API: whether it returns the figures

	closed context.Context // ends with close
	end    context.CancelFunc
	trying sync.WaitGroup

	state   sync.Mutex // guards the fields below, and the client's TLS configuration
	current int        // index in nodes of the one that answered last
	silent  error      // error of requests while the API is silent; nil while it answers

	prefetches mutex          // guards the fields below, also during their request
	channels   map[string]int // global prefetch limits by channel name
	channelsAt time.Time
}

func newManagement(b Broker, root string, timeout time.Duration, s *service.Service) *management {
	m := &management{
		url: root, nodes: b.nodes, timeout: timeout, service: s, prefetches: newMutex(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxRequests, IdleConnTimeout: 30 * time.Second}},
	}
	m.closed, m.end = context.WithCancel(context.Background())
	return m
}

func (m *management) close() {
	m.end()
	m.trying.Wait()
	m.client.CloseIdleConnections()
}

// queueStats are the management API's figures of a queue. A new queue has no counts yet, and no queue has any if the
// broker doesn't collect statistics.
type queueStats struct {
	Ready          *int          `json:"messages_ready"`
	Unacknowledged *int          `json:"messages_unacknowledged"`
	Type           string        `json:"type"`
	State          string        `json:"state"`
	Consumers      []queueReader `json:"consumer_details"`
	Stats          struct {
		Published rate `json:"publish_details"`
		Delivered rate `json:"deliver_get_details"`
	} `json:"message_stats"`
}

// rate is a recent rate in messages a second.
type rate struct {
	Rate float64 `json:"rate"`
}

func (s queueStats) known() bool { return s.Ready != nil && s.Unacknowledged != nil }

// down reports whether the queue is unusable by its state. The broker itself reports a quorum queue without a leader
// as empty.
func (s queueStats) down() bool {
	return slices.Contains([]string{"down", "minority", "crashed", "stopped", "terminated"}, s.State)
}

type queueReader struct {
	AckRequired bool          `json:"ack_required"`
	Prefetch    uint16        `json:"prefetch_count"`
	Channel     channelDetail `json:"channel_details"`
}

// channelDetail names a channel. RabbitMQ writes an empty one, of a channel
// that it hasn't counted yet, as a list.
type channelDetail struct{ Name string }

func (d *channelDetail) UnmarshalJSON(text []byte) error {
	type named channelDetail
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, (*named)(d))
}

var errNotFound = errors.New("not found")

// queue returns zero counts for a queue that the API doesn't have (yet).
func (m *management) queue(ctx context.Context, queue string) (queueStats, error) {
	if queue == "" { // there is none of that name, and the API would list all queues
		return queueStats{Ready: new(0), Unacknowledged: new(0)}, nil
	}
	var stats queueStats
	err := m.get(ctx, &stats, nil, "queues", vhostInPath, queue)
	switch {
	case errors.Is(err, errNotFound):
		stats, err = queueStats{Ready: new(0), Unacknowledged: new(0)}, nil
	case err == nil && stats.known() && (min(*stats.Ready, *stats.Unacknowledged) < 0 || max(*stats.Ready, *stats.Unacknowledged) > maxMessages):
		err = fmt.Errorf("management API: queue %q has impossible numbers of messages: %d ready and %d unacknowledged", queue, *stats.Ready, *stats.Unacknowledged)
	}
	m.report(ctx, err)
	return stats, err
}

// report records whether the API has answered.
func (m *management) report(ctx context.Context, err error) {
	switch {
	case err == nil:
		m.service.OK()
	case ctx.Err() == nil:
		m.service.Failed(fmt.Errorf("how many messages workers hold unacknowledged is unknown, so queues may exceed their limits by that many: %w", err))
	}
}

// maxMessages is more than any queue holds; counts up to it can be added.
const maxMessages = 1 << 53

// prefetch returns the most messages that the consumers may hold; known is false if one of them has no limit or an
// unknown one. Limits of whole channels may be as old as age.
func (m *management) prefetch(ctx context.Context, q queueStats, age time.Duration) (limit int, known bool) {
	shared := map[string]bool{}
	for _, c := range q.Consumers {
		channel, held := c.Channel.Name, int(c.Prefetch)
		if !c.AckRequired || held == 0 && shared[channel] {
			continue
		}
		if held == 0 { // Celery limits the whole channel, except where quorum queues are used
			shared[channel] = true
			if held = m.globalPrefetch(ctx, channel, age); held == 0 {
				return 0, false
			}
		}
		limit += held
	}
	return limit, true
}

// globalPrefetch returns a channel's own limit, 0 if there is none or it is unknown. It requests all channels at
// once, as there may be hundreds.
func (m *management) globalPrefetch(ctx context.Context, channel string, most time.Duration) int {
	if m.prefetches.lock(ctx) != nil {
		return 0
	}
	defer m.prefetches.unlock()
	age := time.Since(m.channelsAt)
	if limit, ok := m.channels[channel]; channel == "" || ok && age < most || m.channels != nil && age < time.Second {
		return limit
	}
	var all []struct {
		Name   string `json:"name"`
		Global uint16 `json:"global_prefetch_count"`
	}
	m.channels, m.channelsAt = map[string]int{}, time.Now()
	if m.get(ctx, &all, ofChannels, "vhosts", vhostInPath, "channels") == nil {
		for _, c := range all {
			m.channels[c.Name] = int(c.Global)
		}
	}
	return m.channels[channel]
}

// maxAnswer bounds the size of an answer.
const maxAnswer = 64 << 20

// ofChannels limits a list of channels to the columns that are read.
var ofChannels = url.Values{"columns": {"name,global_prefetch_count"}}

// vhostInPath stands for the virtual host in a path.
const vhostInPath = "\x00"

// get tries the nodes in turn, the one that answered last first, within the time-out. If none answers, a background
// loop retries.
func (m *management) get(ctx context.Context, into any, query url.Values, path ...string) error {
	m.state.Lock()
	silent, current := m.silent, m.current
	m.state.Unlock()
	if silent != nil {
		return silent
	}
	err := m.getAny(ctx, &current, into, query, path...)
	m.state.Lock()
	defer m.state.Unlock()
	m.current = current
	if isTimeout(err) && ctx.Err() == nil && m.silent == nil {
		m.silent = err
		m.trying.Go(m.awaitAnswer)
	}
	return err
}

// getAny tries the nodes in turn, from current on, until one answers.
func (m *management) getAny(ctx context.Context, current *int, into any, query url.Values, path ...string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	for range max(1, len(m.nodes)) {
		var n node
		if len(m.nodes) > 0 {
			n = m.nodes[*current]
		}
		err = m.getFrom(ctx, n, into, query, path...)
		if !isTimeout(err) {
			return err
		}
		if len(m.nodes) > 0 {
			*current = (*current + 1) % len(m.nodes)
		}
		if m.url != "" || ctx.Err() != nil {
			break
		}
	}
	return err
}

// isTimeout reports whether a request had no answer at all.
func isTimeout(err error) bool {
	_, failed := errors.AsType[*url.Error](err)
	return failed || errors.Is(err, context.DeadlineExceeded)
}

// awaitAnswer retries, with growing pauses, until the API answers.
func (m *management) awaitAnswer() {
	backoff := service.Backoff{Min: time.Second}
	m.state.Lock()
	current := m.current
	m.state.Unlock()
	for backoff.Wait(m.closed) == nil {
		var vhost struct{}
		err := m.getAny(m.closed, &current, &vhost, nil, "vhosts", vhostInPath)
		if isTimeout(err) {
			continue
		}
		m.state.Lock()
		m.silent, m.current = nil, current
		m.state.Unlock()
		return
	}
}

func (m *management) getFrom(ctx context.Context, n node, into any, query url.Values, path ...string) error {
	base, err := m.base(n)
	if err != nil {
		return err
	}
	path = slices.Clone(path)
	for i, p := range path {
		if p == vhostInPath {
			p = n.vhost
		}
		path[i] = url.PathEscape(p)
	}
	// Opaque pieces: a virtual host named "/" must stay "%2F".
	target := strings.TrimSuffix(base.String(), "/") + "/api/" + strings.Join(path, "/")
	if query != nil {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return errors.New("the management URL is not valid")
	}
	user, password := n.user, n.password
	if base.User != nil {
		user = base.User.Username()
		password, _ = base.User.Password()
	}
	request.URL.User = nil
	request.SetBasicAuth(user, password)
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("management API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body := io.LimitReader(response.Body, maxAnswer)
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, maxRefusal))
		_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
		if response.StatusCode == http.StatusNotFound {
			return errNotFound
		}
		return fmt.Errorf("management API: GET %s: %s%s", request.URL.Redacted(), response.Status, refusal(response.StatusCode, text, user, n.vhost))
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("management API: GET %s: %w", request.URL.Redacted(), err)
	}
	return nil
}

// maxRefusal bounds the size of the body of a refusal, and maxReason the length of the reason shown.
const (
	maxRefusal = 4 << 10
	maxReason  = 200
)

// refusal returns RabbitMQ's reason for refusing a user, from the body of its answer, and a remedy.
func refusal(status int, body []byte, user, vhost string) string {
	var why struct{ Reason string }
	_ = json.Unmarshal(body, &why) // another server may answer with a page
	said := ""
	if why.Reason != "" {
		said = fmt.Sprintf(": RabbitMQ's reason is %q", why.Reason[:min(len(why.Reason), maxReason)])
	}
	help := map[string]string{
		"Not management user":                        "give the user the tag management or monitoring",
		"User not authorised to access virtual host": "give the user rights there, by rabbitmqctl set_permissions",
		"Login failed":                               "are user and password right?",
	}[why.Reason]
	if help == "" && status == http.StatusUnauthorized {
		help = "are user and password right, and has the user the tag monitoring?"
	}
	if help != "" {
		said += " (" + help + ")"
	}
	switch why.Reason {
	case "Not management user":
		said += ": rabbitmqctl set_user_tags " + service.ShellWord(user) + " monitoring"
	case "User not authorised to access virtual host":
		said += fmt.Sprintf(": rabbitmqctl set_permissions -p %s %s '^$' '^$' '^$' is enough for the API; what a daemon's user needs, config check --for DAEMON prints",
			service.ShellWord(vhost), service.ShellWord(user))
	}
	return said
}

func (m *management) base(n node) (*url.URL, error) {
	if m.url == "" && n.port+10000 > math.MaxUint16 {
		return nil, fmt.Errorf("the management API's port can't be the broker's (%d) + 10000: set rabbitmq.management_url", n.port)
	}
	u := &url.URL{Scheme: "http", Host: net.JoinHostPort(n.host, strconv.Itoa(n.port+10000))}
	if n.secure {
		u.Scheme = "https"
	}
	if m.url != "" {
		var err error
		if u, err = url.Parse(m.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("the management URL must be http:// or https:// with a host")
		}
	}
	return u, m.trust(n, u.Scheme == "https")
}

// trust accepts the broker's own certificates for the API as well.
func (m *management) trust(n node, secure bool) error {
	m.state.Lock()
	defer m.state.Unlock()
	transport, ok := m.client.Transport.(*http.Transport)
	if !secure || !ok || transport.TLSClientConfig != nil {
		return nil
	}
	config, err := n.tlsConfig()
	if err == nil {
		config.ServerName = "" // the API may have another host name
		transport.TLSClientConfig = config
	}
	return err
}

// CheckManagement makes one request of the kind that measurements make, which needs the same rights; one of the
// broker's addresses must answer. A missing queue is no error.
func (q *QueueInspector) CheckManagement(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(q.management.nodes))*q.management.timeout)
	defer cancel()
	var problems []error
	for _, n := range q.management.nodes {
		err := q.management.check(ctx, n)
		if err == nil {
			return nil
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (m *management) check(ctx context.Context, n node) error {
	var stats queueStats
	if err := m.getFrom(ctx, n, &stats, nil, "queues", vhostInPath, "celery"); err != nil && !errors.Is(err, errNotFound) {
		return err
	}
	var channels []struct{}
	err := m.getFrom(ctx, n, &channels, ofChannels, "vhosts", vhostInPath, "channels")
	if errors.Is(err, errNotFound) { // more than the queue is missing
		err = fmt.Errorf("management API: it knows no virtual host %q", n.vhost)
	}
	return err
}
