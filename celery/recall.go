package celery

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// recallTimeout bounds Recall, as a queue may not answer.
const recallTimeout = 30 * time.Second

// Recall removes messages from a queue, before a consumer gets them. It fetches up to most
// ready ones, and removes those whose task ids take returns. The others stay where they were,
// delivered once more than before, which a quorum queue may limit. It is an error if one can't
// be removed, as the connection ends; it stays then.
func (q *QueueInspector) Recall(ctx context.Context, queue string, most int, take func(ids []string) ([]string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	if err := q.busy.lock(ctx); err != nil {
		return err
	}
	conn, err := q.dialer.dial(ctx)
	q.busy.unlock() // measurements go on over their own connection
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
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take messages out of queue %q: %w", queue, ofQueue(queue, err))
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
