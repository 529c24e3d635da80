package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"testing"

	"swh-scheduler/internal/testenv"
)

// speedValues are n records: visits, each "created" and then "full", of n/8
// origins in turn, every second visit with something new.
func speedValues(n int) [][]byte {
	values := make([][]byte, 0, n)
	origins := max(1, n/8)
	for i := 0; len(values) < n; i++ {
		origin, day := i%origins, i/origins
		values = append(values,
			visitOf(origin, day, map[string]any{"status": "created", "snapshot": nil}),
			visitOf(origin, day, map[string]any{"snapshot": fmt.Appendf(nil, "%020d", day/2), "date": at(day).Add(1)}))
	}
	return values[:n]
}

// BenchmarkReplay reads b.N records from Kafka into the database, as in
//
//	go test ./journal -run '^$' -bench Replay -benchtime 400000x
func BenchmarkReplay(b *testing.B) {
	for _, partitions := range []int32{1, 4} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := newStream(b, partitions)
			values := speedValues(b.N)
			for partition := range partitions {
				var part [][]byte
				for i, value := range values {
					if int32(i/2)%partitions == partition {
						part = append(part, value)
					}
				}
				s.produce(partition, part...)
			}
			o := s.options()
			o.OnEOF, o.StopAfterObjects, o.Log = EOFContinue, int64(b.N), slog.New(slog.DiscardHandler)
			b.ResetTimer()
			s.run(o)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkPeerReplay has the peer's own journal client read b.N records from
// the same broker into a database of its own.
func BenchmarkPeerReplay(b *testing.B) {
	s := newStream(b, 1)
	s.produce(0, speedValues(b.N)...)
	job, err := json.Marshal(map[string]any{
		"dsn": testenv.PeerDatabase(b), "brokers": s.brokers, "group_id": s.prefix, "prefix": s.prefix, "stop_after_objects": b.N,
	})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(testenv.Python(b), "testdata/peer_client.py")
	cmd.Stdin = bytes.NewReader(job)
	b.ResetTimer()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
