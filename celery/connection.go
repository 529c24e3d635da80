package celery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// ConnectionOptions are the common options of publishers, consumers, inspectors and remote control.
type ConnectionOptions struct {
	Name       string        // shown in RabbitMQ's list of connections
	MaxBackoff time.Duration // longest pause before connecting again; default: 10 s
}

// connection is an open AMQP connection and the socket under it.
type connection struct {
	*amqp.Connection
	socket *framedConn
	node   node
}

// kill closes the socket at once, which ends every call that is stuck in it.
func (c *connection) kill() { _ = c.socket.Close() }

// reset closes the socket at once, and discards unread data of both sides.
func (c *connection) reset() {
	if tcp, ok := c.socket.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.kill()
}

// killAfter closes the socket when ctx ends, unless stop is called before. The library's calls take no context, so
// closing the socket is the way to end them.
func (c *connection) killAfter(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, c.kill)
}

// closeTimeout bounds an orderly close.
const closeTimeout = 2 * time.Second

// close ends the connection in order if the broker answers in time. A deadline alone doesn't bound it: the library sets
// the socket's anew at each frame, such as a heartbeat.
func (c *connection) close() {
	defer time.AfterFunc(closeTimeout, c.kill).Stop()
	c.socket.held.end()
	if err := c.CloseDeadline(time.Now().Add(closeTimeout)); err != nil {
		c.kill()
	}
}

// dialer connects to a broker's addresses in turn, beginning with the one
// that worked last. It isn't safe for concurrent use.
type dialer struct {
	broker  Broker
	options ConnectionOptions
	maxBody uint64
	maxHeld uint64 // bytes of bodies in memory; 0: no limit
	current int
	backoff service.Backoff // the caller resets it on success
}

func newDialer(b Broker, o ConnectionOptions) dialer {
	return dialer{broker: b, options: o, backoff: service.Backoff{Min: 50 * time.Millisecond, Max: o.MaxBackoff}}
}

// dial tries each address once.
func (d *dialer) dial(ctx context.Context) (*connection, error) {
	if len(d.broker.nodes) == 0 {
		return nil, errors.New("no broker address: make one with ParseBroker")
	}
	var errs []error
	for range d.broker.nodes {
		n := d.broker.nodes[d.current]
		c, err := d.open(ctx, n)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("connecting to %s: %w", n, explained(err)))
		d.current = (d.current + 1) % len(d.broker.nodes)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
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
		config, err := n.tlsConfig()
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
	socket.held.limit = d.maxHeld
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

// mutex is a mutex whose lock can be abandoned when a context ends.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

// lock returns the cause of the context's end if that came first.
func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m mutex) unlock() { <-m }
