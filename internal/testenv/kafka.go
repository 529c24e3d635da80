package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// Kafka returns the bootstrap brokers (host:port).
func Kafka(t testing.TB) []string {
	t.Helper()
	return strings.Split(endpoint(t, kafkaVar), ",")
}

// Topic returns a fresh topic whose partitions all take records; it is deleted
// when the test ends.
func Topic(t testing.TB, partitions int) string {
	t.Helper()
	topic := randomName("test")
	onKafka(t, func(ctx context.Context, client *kafka.Client) error {
		response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
			{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1},
		}})
		if err != nil {
			return err
		}
		return response.Errors[topic]
	})
	t.Cleanup(func() {
		onKafka(t, func(ctx context.Context, client *kafka.Client) error {
			response, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			// A test may have deleted it already.
			if err := response.Errors[topic]; !errors.Is(err, kafka.UnknownTopicOrPartition) {
				return err
			}
			return nil
		})
	})
	// Brokers learn of a new topic a moment after its creation.
	onKafka(t, func(ctx context.Context, client *kafka.Client) error {
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for {
			err := topicReady(ctx, client, topic, partitions)
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
	return topic
}

// topicReady asks each partition's leader for an offset: metadata name leaders
// before those know that they are.
func topicReady(ctx context.Context, client *kafka.Client, topic string, partitions int) error {
	var requests []kafka.OffsetRequest
	for partition := range partitions {
		requests = append(requests, kafka.LastOffsetOf(partition))
	}
	response, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: requests},
	})
	if err != nil {
		return err
	}
	answers := response.Topics[topic]
	if len(answers) < partitions {
		return fmt.Errorf("%d of %d partitions answer", len(answers), partitions)
	}
	for _, answer := range answers {
		if answer.Error != nil {
			return fmt.Errorf("partition %d: %w", answer.Partition, answer.Error)
		}
	}
	return nil
}

// onKafka runs f with a client that is gone, with its goroutines, afterwards.
func onKafka(t testing.TB, f func(ctx context.Context, client *kafka.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	transport := &kafka.Transport{Dial: (&net.Dialer{}).DialContext}
	defer transport.CloseIdleConnections()
	if err := f(ctx, &kafka.Client{Addr: kafka.TCP(Kafka(t)...), Transport: transport}); err != nil {
		t.Fatalf("testenv: on the Kafka of %s: %v", kafkaVar, err)
	}
}
