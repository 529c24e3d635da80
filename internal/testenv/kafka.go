package testenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/testenv/throwaway"
)

// Kafka returns the bootstrap brokers (host:port).
func Kafka(t testing.TB) []string {
	t.Helper()
	return strings.Split(endpoint(t, kafkaVar), ",")
}

// Topic returns a fresh topic whose partitions all accept records; it is deleted when the test ends.
func Topic(t testing.TB, partitions int) string {
	t.Helper()
	topic := randomName("test")
	makeTopic(t, topic, partitions)
	return topic
}

// Journal returns the prefix of a fresh journal. Its topics of visit statuses and of further object types accept
// records; they are deleted when the test ends.
func Journal(t testing.TB, partitions int, further ...string) (prefix string) {
	t.Helper()
	prefix = randomName("test")
	for _, objects := range append(further, "origin_visit_status") {
		makeTopic(t, prefix+"."+objects, partitions)
	}
	return prefix
}

func makeTopic(t testing.TB, topic string, partitions int) {
	t.Helper()
	onKafka(t, func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
		return err
	})
	t.Cleanup(func() {
		onKafka(t, func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.DeleteTopic(ctx, topic)
			if errors.Is(err, kerr.UnknownTopicOrPartition) { // a test may have deleted it already
				return nil
			}
			return err
		})
	})
	// Brokers have a new topic's metadata a moment after its creation.
	onKafka(t, func(ctx context.Context, admin *kadm.Client) error {
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for {
			err := topicReady(ctx, admin, topic, partitions)
			if err == nil {
				return nil
			}
			select {
			case <-poll.C:
			case <-ctx.Done():
				return fmt.Errorf("topic %s is not ready: %w", topic, err)
			}
		}
	})
}

// topicReady asks each partition's leader for an offset, as metadata may name leaders before they lead.
func topicReady(ctx context.Context, admin *kadm.Client, topic string, partitions int) error {
	offsets, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	if n := len(offsets[topic]); n < partitions {
		return fmt.Errorf("%d of %d partitions answer", n, partitions)
	}
	return offsets.Error()
}

// onKafka runs f with a client that is gone, with its goroutines, afterwards.
func onKafka(t testing.TB, f func(ctx context.Context, admin *kadm.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	// Metadata of a topic just made are asked for again and again.
	client, err := kgo.NewClient(kgo.SeedBrokers(Kafka(t)...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatalf("testenv: %s: %v", kafkaVar, err)
	}
	defer client.Close()
	if err := f(ctx, kadm.NewClient(client)); err != nil {
		t.Fatalf("testenv: on the Kafka of %s: %v", kafkaVar, err)
	}
}

// KafkaCluster returns a cluster of the test's own, to do harm to. It is made of
// this machine's programs, and stopped when the test ends. Of three nodes any one may die.
func KafkaCluster(t testing.TB, nodes int, users map[string]string) *throwaway.KafkaCluster {
	t.Helper()
	c, err := throwaway.StartKafkaCluster(t.Context(), slog.New(slog.NewTextHandler(t.Output(), nil)), nodes, users)
	if err != nil {
		t.Fatalf("testenv: start a Kafka cluster: %v", err)
	}
	t.Cleanup(c.Stop)
	return c
}
