package celery

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Recall takes messages out of a queue that no consumer takes: up to most ready ones, of which
// take returns the task ids of those that may go. The others stay where they were. If a
// taken one can't be removed, as the connection ends, that is an error, and it stays, too.
func (q *QueueInspector) Recall(ctx context.Context, queue string, most int, take func(ids []string) ([]string, error)) error {
	if err := q.busy.lock(ctx); err != nil {
		return err
	}
	defer q.busy.unlock()
	conn, err := q.dialer.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.close() // what is not acknowledged goes back
	defer conn.killAfter(ctx)()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	messages := make(map[string]amqp.Delivery)
	var ids []string
	for len(ids) < most {
		m, ok, err := channel.Get(queue, false)
		if err != nil {
			return fmt.Errorf("take messages out of queue %q: %w", queue, err)
		}
		if !ok {
			break
		}
		messages[m.CorrelationId] = m
		ids = append(ids, m.CorrelationId)
	}
	taken, err := take(ids)
	if err != nil {
		return err
	}
	for _, id := range taken {
		m := messages[id]
		if err := m.Ack(false); err != nil {
			return fmt.Errorf("remove messages from queue %q: %w", queue, err)
		}
	}
	// Its answer comes after the broker has read the acknowledgements.
	_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err
}
