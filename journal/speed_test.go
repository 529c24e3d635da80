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

// BenchmarkReplay reads one stream of 400,000 records, 200,000 visits of 50,000
// origins in one partition, from Kafka into the database; the peer's own journal
// client, started as a process, reads the first 40,000 of it.
func BenchmarkReplay(b *testing.B) {
	const records, forPeer = 400_000, 40_000
	values := speedValues(records)
	b.Run("side=ours", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := newStream(b, 1)
			s.produce(0, values...)
			b.StartTimer()
			s.run(replayOptions(s, records))
		}
		b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(0, "ns/op") // the sides read different numbers of records
	})
	b.Run("side=peer", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := newStream(b, 1)
			s.produce(0, values[:forPeer]...)
			job, err := json.Marshal(map[string]any{
				"dsn": testenv.PeerDatabase(b), "brokers": s.brokers, "group_id": s.prefix, "prefix": s.prefix, "stop_after_objects": forPeer,
			})
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command(testenv.Python(b), "testdata/peer_client.py")
			cmd.Stdin = bytes.NewReader(job)
			b.StartTimer()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
		}
		b.ReportMetric(float64(b.N*forPeer)/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkReplayOfAll reads 2,000,000 records over four partitions.
func BenchmarkReplayOfAll(b *testing.B) {
	const records, partitions = 2_000_000, 4
	values := speedValues(records)
	for b.Loop() {
		b.StopTimer()
		s := newStream(b, partitions)
		for partition := range int32(partitions) {
			var part [][]byte
			for i, value := range values {
				if int32(i/2)%partitions == partition {
					part = append(part, value)
				}
			}
			s.produce(partition, part...)
		}
		b.StartTimer()
		s.run(replayOptions(s, records))
	}
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
}

func replayOptions(s *stream, records int64) Options {
	o := s.options()
	o.OnEOF, o.StopAfterObjects, o.Log = EOFContinue, records, slog.New(slog.DiscardHandler)
	return o
}
