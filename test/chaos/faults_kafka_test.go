package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "chaos.origin_visit_status"
	partitions = 4
	group      = "chaos"
)

var journalFaults = []fault{
	{"Kafka broker killed", "kafka", 15 * time.Second, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		n := r.IntN(len(c.kafka.Brokers))
		c.kafka.KillNode(n)
		return fmt.Sprint("broker ", n+1), harm{daemons: c.named("journal-client")}, func() {
			if err := c.kafka.StartNode(c.t.Context(), n); err != nil {
				c.t.Fatal(err)
			}
		}
	}},
	// Unread records of the topic are lost; the visits are made again when they are due.
	{"Kafka topic deleted and made anew", "kafka", 0, func(c *cluster, _ *rand.Rand) (string, harm, func()) {
		lost := span{from: time.Now().Add(-unreadAtMost)}
		c.onKafka(func(ctx context.Context, admin *kadm.Client) error {
			_, err := admin.DeleteTopic(ctx, topic)
			return err
		})
		c.makeTopic()
		lost.to = time.Now().Add(unreadAtMost)
		c.harmed.journal = append(c.harmed.journal, lost)
		return topic, harm{daemons: c.named("journal-client")}, nothing
	}},
	// The group has no members, as when an operator does it. The journal client reads the records again.
	{"Kafka offsets set back", "kafka", 0, func(c *cluster, r *rand.Rand) (string, harm, func()) {
		clients := c.named("journal-client")
		for _, d := range clients {
			d.stop()
		}
		back := r.Int64N(100)
		all := r.IntN(2) == 0
		hit := fmt.Sprintf("each by %d", back)
		if all {
			hit = "deleted"
		}
		c.onKafka(func(ctx context.Context, admin *kadm.Client) error {
			offsets, err := admin.FetchOffsets(ctx, group)
			if err != nil {
				return err
			}
			if all {
				_, err := admin.DeleteOffsets(ctx, group, offsets.Offsets().TopicsSet())
				return err
			}
			var set kadm.Offsets
			offsets.Each(func(o kadm.OffsetResponse) {
				set.AddOffset(o.Topic, o.Partition, max(0, o.At-back), -1)
			})
			return admin.CommitAllOffsets(ctx, group, set)
		})
		return hit, harm{daemons: clients}, func() {
			for _, d := range clients {
				d.start()
			}
		}
	}},
}

// unreadAtMost bounds the time until a written visit is read, without faults, and the time for which a producer may
// write to a deleted topic.
const unreadAtMost = 10 * time.Second

// sessionsEnd is a time after which Kafka waits no longer for a killed journal client, nor for one that was killed while
// it joined. Kafka assigns partitions to the others 45 s after each.
const sessionsEnd = 2 * time.Minute

// unread returns the number of written visits that no journal client has committed.
func (c *cluster) unread() (n int64) {
	c.t.Helper()
	c.onKafka(func(ctx context.Context, admin *kadm.Client) error {
		lags, err := admin.Lag(ctx, group)
		if err == nil {
			err = lags.Error()
		}
		for _, l := range lags[group].Lag.Sorted() {
			n += max(0, l.Lag)
		}
		return err
	})
	return n
}

// makeTopic creates the topic, once the old one is gone.
func (c *cluster) makeTopic() {
	c.t.Helper()
	c.onKafka(func(ctx context.Context, admin *kadm.Client) error {
		for ticker := time.NewTicker(100 * time.Millisecond); ; <-ticker.C {
			_, err := admin.CreateTopic(ctx, partitions, 3, nil, topic)
			if !errors.Is(err, kerr.TopicAlreadyExists) {
				return err
			}
		}
	})
}

func (c *cluster) onKafka(do func(ctx context.Context, admin *kadm.Client) error) {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.kafka.Brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := do(ctx, kadm.NewClient(client)); err != nil {
		c.t.Fatal(err)
	}
}
