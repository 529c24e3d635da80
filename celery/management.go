package celery

import (
	"context"
	"crypto/tls"
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

// management asks RabbitMQ's management API.
type management struct {
	url    string // empty: derived from the broker's node
	client *http.Client
	tls    *tls.Config

	channels   map[string]int // global prefetch limits by channel name
	channelsAt time.Time
}

// queueStats is what the management API says of a queue. The counts are
// absent while a new queue has not been counted.
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
	var named struct {
		Name string `json:"name"`
	}
	if len(text) > 0 && text[0] == '{' {
		if err := json.Unmarshal(text, &named); err != nil {
			return err
		}
	}
	d.Name = named.Name
	return nil
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

// prefetch is the sum of what the consumers may hold, unless one of them has
// no limit or one that isn't known.
func (m *management) prefetch(ctx context.Context, n node, q queueStats) (limit int, known bool) {
	shared := map[string]bool{}
	for _, c := range q.Consumers {
		if !c.AckRequired {
			continue
		}
		if c.Prefetch > 0 {
			limit += int(c.Prefetch)
			continue
		}
		// Celery limits the whole channel, except where quorum queues are used.
		if c.Channel.Name == "" {
			return 0, false
		}
		if !shared[c.Channel.Name] {
			shared[c.Channel.Name] = true
			global := m.globalPrefetch(ctx, n, c.Channel.Name)
			if global == 0 {
				return 0, false
			}
			limit += global
		}
	}
	return limit, true
}

// globalPrefetch gives a channel's own limit, 0 if there is none or it isn't
// known. All channels are asked for at once, as there may be hundreds.
func (m *management) globalPrefetch(ctx context.Context, n node, channel string) int {
	if limit, ok := m.channels[channel]; ok && time.Since(m.channelsAt) < StatsAge {
		return limit
	}
	if m.channels != nil && time.Since(m.channelsAt) < time.Second {
		return 0
	}
	var all []struct {
		Name   string `json:"name"`
		Global uint16 `json:"global_prefetch_count"`
	}
	m.channels, m.channelsAt = map[string]int{}, time.Now()
	err := m.get(ctx, n, &all, url.Values{"columns": {"name,global_prefetch_count"}}, "vhosts", n.vhost, "channels")
	if err != nil {
		return 0
	}
	for _, c := range all {
		m.channels[c.Name] = int(c.Global)
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
	switch {
	case response.StatusCode == http.StatusNotFound:
		_, _ = io.Copy(io.Discard, body) // so that the connection can be used again
		return errNotFound
	case response.StatusCode != http.StatusOK:
		_, _ = io.Copy(io.Discard, body)
		return fmt.Errorf("management API: GET %s: %s", request.URL.Redacted(), response.Status)
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("management API: GET %s: %w", request.URL.Redacted(), err)
	}
	return nil
}

func (m *management) base(n node) (*url.URL, error) {
	if m.url != "" {
		u, err := url.Parse(m.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("the management URL must be http:// or https:// with a host")
		}
		if err := m.trust(n, u.Scheme == "https"); err != nil {
			return nil, err
		}
		return u, nil
	}
	scheme := "http"
	if n.secure {
		scheme = "https"
	}
	if err := m.trust(n, n.secure); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(n.host, strconv.Itoa(n.port+10000))}, nil
}

// trust lets the API be served with the broker's own certificates.
func (m *management) trust(n node, secure bool) error {
	transport, ok := m.client.Transport.(*http.Transport)
	if !secure || !ok || transport.TLSClientConfig != nil {
		return nil
	}
	config, err := n.tlsConfig(m.tls)
	if err != nil {
		return err
	}
	config.ServerName = "" // the API's host may be another
	transport.TLSClientConfig = config
	return nil
}

// CheckManagement asks the management API once whether it knows the broker's
// virtual host; one of the broker's addresses must do.
func (q *QueueInspector) CheckManagement(ctx context.Context) error {
	select {
	case q.busy <- struct{}{}:
		defer func() { <-q.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
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
