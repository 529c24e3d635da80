package celery

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ConnectionOptions are what publishers, consumers, inspectors and remote
// control have in common.
type ConnectionOptions struct {
	// Name is shown in RabbitMQ's list of connections.
	Name string

	// TLS is where the settings for amqps:// addresses start from. What an
	// address says in its query is put on top. The server's name defaults to
	// the address's host.
	TLS *tls.Config

	// MinBackoff and MaxBackoff bound the pause before connecting again:
	// between half and all of a time that doubles from one to the other.
	// Defaults: 100 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
}

func (o ConnectionOptions) withDefaults() ConnectionOptions {
	o.MinBackoff = cmp.Or(o.MinBackoff, 100*time.Millisecond)
	o.MaxBackoff = max(cmp.Or(o.MaxBackoff, 30*time.Second), o.MinBackoff)
	return o
}

// connection is an open AMQP connection and the socket under it.
type connection struct {
	*amqp.Connection
	socket *framedConn
	node   node
}

// kill closes the socket without ceremony, which frees whoever is stuck in it.
func (c *connection) kill() { _ = c.socket.Close() }

// closeTimeout bounds saying goodbye to the broker.
const closeTimeout = 2 * time.Second

func (c *connection) close() {
	err := c.CloseDeadline(time.Now().Add(closeTimeout))
	if err != nil {
		c.kill()
	}
}

// dialer connects to a broker's addresses in turn, beginning with the one
// that worked last. It isn't safe for concurrent use.
type dialer struct {
	broker  Broker
	options ConnectionOptions
	maxBody uint64
	current int
	tries   int // since all was well; whoever dials sets it to 0 then
}

// dial tries each address once.
func (d *dialer) dial(ctx context.Context) (*connection, error) {
	if len(d.broker.nodes) == 0 {
		return nil, errors.New("no broker address: make one with ParseBroker")
	}
	d.tries++
	var errs []error
	for range d.broker.nodes {
		n := d.broker.nodes[d.current]
		c, err := d.open(ctx, n)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("connecting to %s: %w", n, err))
		d.current = (d.current + 1) % len(d.broker.nodes)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// pause is how long to wait before the next try: from half of a time that
// doubles with each try to all of it.
func (d *dialer) pause() time.Duration {
	p := d.options.MinBackoff << min(max(d.tries-1, 0), 30)
	if p <= 0 || p > d.options.MaxBackoff {
		p = d.options.MaxBackoff
	}
	return p/2 + rand.N(p/2+1)
}

func (d *dialer) open(ctx context.Context, n node) (_ *connection, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.connectTimeout)
	defer cancel()
	var tcp net.Dialer
	raw, err := tcp.DialContext(ctx, "tcp", n.address())
	if err != nil {
		return nil, err
	}
	if n.secure {
		config, err := n.tlsConfig(d.options.TLS)
		if err != nil {
			_ = raw.Close()
			return nil, err
		}
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		raw = secure
	}
	socket := newFramedConn(raw, d.maxBody)
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	sasl := amqp.Authentication(&amqp.PlainAuth{Username: n.user, Password: n.password})
	if n.external {
		sasl = &amqp.ExternalAuth{}
	}
	properties := amqp.NewConnectionProperties()
	if d.options.Name != "" {
		properties.SetClientConnectionName(d.options.Name)
	}
	c, err := amqp.Open(socket, amqp.Config{
		SASL:       []amqp.Authentication{sasl},
		Vhost:      n.vhost,
		Heartbeat:  n.heartbeat,
		FrameSize:  maxFrame,
		Locale:     "en_US",
		Properties: properties,
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = socket.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
		return nil, err
	}
	return &connection{Connection: c, socket: socket, node: n}, nil
}

// sleep waits, and reports false if the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
