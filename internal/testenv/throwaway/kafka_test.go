package throwaway

import (
	"context"
	"errors"
	"testing"
)

// An interrupted start of Kafka ends with an error: it formatted the storage with a command that had not started yet.
func TestKafkaStartsAreInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	node := kafkaNode{server: server{local: &local{reaper: &reaper{dir: t.TempDir()}}, name: "kafka"}, settings: map[string]string{}}
	if err := node.format(ctx, kafkaClusterID()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
