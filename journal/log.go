package journal

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaLog passes what the Kafka client says on as debug messages: it says it at
// each try, where our own log has a line for each change of state.
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
