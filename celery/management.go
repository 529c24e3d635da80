package celery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// management queries RabbitMQ's management API.
type management struct {
	url    string // empty: derived from the broker's node
	client *http.Client

	channels   map[string]int // global prefetch limits by channel name
	channelsAt time.Time
}

// queueStats is what the management API says of a queue. A new queue has no counts
// yet.
type queueStats struct {
	Ready          int           `json:"messages_ready"`
	Unacknowledged int           `json:"messages_unacknowledged"`
	Consumers      []queueReader `json:"consumer_details"`
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

// queue returns zero statistics for a queue that the API doesn't know (yet).
func (m *management) queue(ctx context.Context, n node, queue string) (queueStats, error) {
	var stats queueStats
	err := m.get(ctx, n, &stats, nil, "queues", n.vhost, queue)
	if errors.Is(err, errNotFound) {
		return queueStats{}, nil
	}
	if err == nil && (min(stats.Ready, stats.Unacknowledged) < 0 || max(stats.Ready, stats.Unacknowledged) > maxMessages) {
		err = fmt.Errorf("management API: queue %q holds %d + %d messages, which cannot be", queue, stats.Ready, stats.Unacknowledged)
	}
	return stats, err
}

// maxMessages is more than any queue holds; counts up to it can be added.
const maxMessages = 1 << 53

// prefetch returns how many messages the consumers may hold, unless one of them
// has no limit or one that isn't known.
func (m *management) prefetch(ctx context.Context, n node, q queueStats) (limit int, known bool) {
	shared := map[string]bool{}
	for _, c := range q.Consumers {
		channel, held := c.Channel.Name, int(c.Prefetch)
		if !c.AckRequired || held == 0 && shared[channel] {
			continue
		}
		if held == 0 { // Celery limits the whole channel, except where quorum queues are used
			shared[channel] = true
			if held = m.globalPrefetch(ctx, n, channel); held == 0 {
				return 0, false
			}
		}
		limit += held
	}
	return limit, true
}

// globalPrefetch returns a channel's own limit, 0 if there is none or it isn't
// known. It asks for all channels at once, as there may be hundreds.
func (m *management) globalPrefetch(ctx context.Context, n node, channel string) int {
	age := time.Since(m.channelsAt)
	if limit, ok := m.channels[channel]; channel == "" || ok && age < StatsAge || m.channels != nil && age < time.Second {
		return limit
	}
	var all []struct {
		Name   string `json:"name"`
		Global uint16 `json:"global_prefetch_count"`
	}
	m.channels, m.channelsAt = map[string]int{}, time.Now()
	if m.get(ctx, n, &all, url.Values{"columns": {"name,global_prefetch_count"}}, "vhosts", n.vhost, "channels") == nil {
		for _, c := range all {
			m.channels[c.Name] = int(c.Global)
		}
	}
	return m.channels[channel]
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (m *management) get(ctx context.Context, n node, into any, query url.Values, path ...string) error {
	base, err := m.base(n)
	if err != nil {
		return err
	}
	for i, p := range path {
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
		_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
		if response.StatusCode == http.StatusNotFound {
			return errNotFound
		}
		return fmt.Errorf("management API: GET %s: %s", request.URL.Redacted(), response.Status)
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("management API: GET %s: %w", request.URL.Redacted(), err)
	}
	return nil
}

func (m *management) base(n node) (*url.URL, error) {
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

// trust accepts the broker's own certificates for the API, too.
func (m *management) trust(n node, secure bool) error {
	transport, ok := m.client.Transport.(*http.Transport)
	if !secure || !ok || transport.TLSClientConfig != nil {
		return nil
	}
	config, err := n.tlsConfig()
	if err == nil {
		config.ServerName = "" // the API's host may be another
		transport.TLSClientConfig = config
	}
	return err
}

// CheckManagement asks the management API once whether it knows the broker's
// virtual host; one of the broker's addresses must do.
func (q *QueueInspector) CheckManagement(ctx context.Context) error {
	if err := q.busy.lock(ctx); err != nil {
		return err
	}
	defer q.busy.unlock()
	var problems []error
	for _, n := range q.dialer.broker.nodes {
		var vhost struct{ Name string }
		err := q.management.get(ctx, n, &vhost, nil, "vhosts", n.vhost)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errNotFound):
			err = fmt.Errorf("management API: it knows no virtual host %q", n.vhost)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
