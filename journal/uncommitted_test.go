package journal

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// With read_uncommitted, an open transaction holds back neither the group's offset nor the end of its partition.
func TestOffsetWithinAnOpenTransaction(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(50, 0)...)
	tx, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.prefix))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.EndTransaction(context.WithoutCancel(t.Context()), kgo.TryAbort) }()
	begin := &kgo.Record{Topic: s.topic, Value: visitOf(1, 1, nil)}
	if err := tx.ProduceSync(t.Context(), begin).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.produce(0, visitsOf(4, 2)...)

	o := s.options()
	o.ConsumerSettings = map[string]string{"isolation.level": "read_uncommitted"}
	if n := s.run(o); n != 55 {
		t.Errorf("%d records processed, want 55", n)
	}
	if n := s.run(o); n != 0 {
		t.Errorf("%d records read again", n)
	}
}
