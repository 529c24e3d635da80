package throwaway

import (
	"context"
	"errors"
	"testing"
)

// A start of Kafka that is interrupted before its first command has started ends with an error, not a panic.
func TestKafkaStartsAreInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	node := kafkaNode{server: server{local: &local{reaper: &reaper{dir: t.TempDir()}}, name: "kafka"}, settings: map[string]string{}}
	if err := node.format(ctx, kafkaClusterID()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
