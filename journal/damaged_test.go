package journal

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/testenv"
)

// damaging is a connection to a broker whose disk has changed a byte of one record.
type damaging struct{ net.Conn }

func (c damaging) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p[:n], bytes.ReplaceAll(p[:n], []byte("example.org/0005"), []byte("example.org/x005")))
	return n, err
}

// A damaged batch stops its partition, but not the others. What precedes it counts. The error names the place.
func TestDamagedBatchStopsItsPartition(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	for i := range 10 {
		s.produce(0, visitOf(i, 0, nil))
		s.produce(1, visitOf(100+i, 0, nil))
	}
	var logs testenv.Buffer
	o := s.options()
	o.Log = logs.Logger()
	c, _, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.kafka = append(c.kafka, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return damaging{conn}, err
	}))
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout/4)
	defer cancel()
	n, err := c.Run(ctx)
	if err == nil || n != 15 || ctx.Err() != nil {
		t.Errorf("%d records processed, want 15: %v", n, err)
	}
	want := "partition 0 of " + s.topic + " is read no further: the batch at offset 5 is damaged"
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(logs.String(), want) == 0 || strings.Contains(logs.String(), "not reachable") {
		t.Errorf("error %v, want %q, and in the log:\n%s", err, want, logs.String())
	}
	s.setCommitted(0, 6) // as an operator does
	if n := s.run(s.options()); n != 4 {
		t.Errorf("%d records processed after the batch, want 4", n)
	}
}
