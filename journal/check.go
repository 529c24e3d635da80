package journal

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Check asks the Kafka brokers once for the topic, and returns its name. It joins no group and changes
// nothing. A topic that Run would create may be missing. If the user lacks rights on the topic or the
// group, the error is a RightsError.
func (c *Client) Check(ctx context.Context) (topic string, err error) {
	client, err := kgo.NewClient(c.kafka...)
	if err != nil {
		return "", fmt.Errorf("configure the Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	lacks, err := c.lacks(ctx, client, admin)
	if err == nil && len(lacks) > 0 {
		err = c.rightsError(lacks)
	}
	if err != nil {
		return "", err
	}
	topic, found, err := c.findTopic(ctx, admin)
	if err == nil && !found && !c.o.CreateTopics {
		err = errNoTopic(topic)
	}
	return topic, err
}

func errNoTopic(topic string) error {
	return fmt.Errorf("the topic %s does not exist on the Kafka brokers: create it, or correct the key journal.prefix", topic)
}

// kafkaLog logs the Kafka client's messages, one at each try, as debug messages. Our own log has one entry
// for each change of state.
type kafkaLog struct{ log *slog.Logger }

func (l kafkaLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

func (l kafkaLog) Log(_ kgo.LogLevel, message string, keyvals ...any) {
	l.log.Debug("kafka: "+message, keyvals...)
}
