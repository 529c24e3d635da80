package throwaway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startTimeout is the time limit for the start of a server, on a slow and busy machine.
const startTimeout = 10 * time.Minute

// waitReady calls check until it succeeds. It gives up when died is closed.
func waitReady(ctx context.Context, died <-chan struct{}, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-died:
			return errors.New("it stopped while starting")
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last: %w)", ctx.Err(), err)
		}
	}
}

func postgresReady(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
}

// rabbitMQReady checks both AMQP and the management API, as either may be ready first.
func rabbitMQReady(url, managementURL string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, managementURL+"api/overview", nil)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("management API: %s", response.Status)
		}
		conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// kafkaReady asks for the group coordinator, which exists only once the broker and its controller work together. The
// request also creates the topic for offsets, so that the first consumer need not wait for it.
func kafkaReady(broker string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RequestRetries(0))
		if err != nil {
			return err
		}
		defer client.Close()
		const group = "ready"
		return kadm.NewClient(client).FindGroupCoordinators(ctx, group)[group].Err
	}
}

// listening checks whether something accepts connections on the port.
func listening(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
