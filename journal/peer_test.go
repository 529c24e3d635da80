package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// seedStatements create the state before the stream: origins listed twice, some disabled; stats by the
// scheduling daemons and by earlier visits; queues with positions.
const seedStatements = `
insert into listers (id, name, instance_name, current_state, updated) values
  ('00000000-0000-0000-0000-000000000001', 'gitlab', 'one', '{}', now()),
  ('00000000-0000-0000-0000-000000000002', 'github', 'two', '{}', now());
insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
  select l.id, 'https://example.org/' || n, v, '{}', n % 7 <> 0, '2024-01-01 00:00+00'
  from listers l, generate_series(0, 59) n, unnest(array['git', 'hg']) v
  where n % 2 = 0 or (l.name = 'github' and v = 'git');
insert into origin_visit_stats (url, visit_type, last_scheduled)
  select 'https://example.org/' || n, 'git', '2023-12-31 12:00+00' from generate_series(0, 20) n;
insert into origin_visit_stats (url, visit_type, last_visit, last_visit_status, last_successful, last_snapshot,
    next_visit_queue_position, next_position_offset, successive_visits)
  select 'https://example.org/' || n, 'hg', '2024-01-05 12:00+00', (array['successful', 'failed', 'not_found'])[n % 3 + 1]::last_visit_status,
    case when n % 3 = 0 then timestamptz '2024-01-05 12:00+00' end, case when n % 2 = 0 then 'aaaaaaaaaaaaaaaaaaaa'::bytea end,
    case when n % 4 > 0 then n % 4 - 1 end, n % 12, n % 3 + 1
  from generate_series(0, 30) n;
insert into visit_scheduler_queue_position values ('git', 123456), ('svn', 7);`

type peerRecord map[string]any

// tooLong is an integer beyond msgpack's types; the Python scheduler has extension types for it.
const tooLong = "340282366920938463463374607431768211456"

// drawRecords returns a stream of visit statuses of a few origins: repeated, late, in old encodings,
// without a type, with every status.
func drawRecords(r *rand.Rand, n int) []peerRecord {
	pick := func(from ...any) any { return from[r.IntN(len(from))] }
	records := make([]peerRecord, 0, n)
	for i := range n {
		if len(records) > 0 && r.IntN(10) == 0 {
			records = append(records, records[r.IntN(len(records))])
			continue
		}
		date := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(
			time.Duration(i)*time.Hour + time.Duration(r.IntN(48*3600))*time.Second + time.Duration(r.IntN(3))*1234*time.Microsecond)
		zone := time.FixedZone("", r.IntN(5)*1800-3600)
		snapshot := pick(hex.EncodeToString(snapshotA), hex.EncodeToString(snapshotB), nil)
		rec := peerRecord{
			"origin": fmt.Sprintf("https://example.org/%d", r.IntN(60)),
			"type":   pick("git", "git", "hg", "svn"),
			"visit":  r.IntN(100), "status": pick("full", "full", "partial", "failed", "failed", "not_found", "not_found", "created", "ongoing"),
			"date": date.In(zone).Format("2006-01-02T15:04:05.000000-07:00"), "snapshot": snapshot,
			"metadata": pick(nil, map[string]any{"status": "ongoing", "x": []int{1, 2}}, map[string]any{"beyond 64 bits": []any{tooLong, "-" + tooLong}}),
			"old":      r.IntN(5) == 0,
		}
		if r.IntN(20) == 0 {
			delete(rec, "type")
		}
		records = append(records, rec)
	}
	return records
}

// The Python scheduler is the oracle. On the same stream, written by its own serialisers, both leave the
// same tables, except for random intervals.
func TestSameEndStateAsThePeer(t *testing.T) {
	t.Parallel()
	for run := range 4 {
		t.Run(fmt.Sprintf("run=%d", run), func(t *testing.T) {
			t.Parallel()
			r := seed.Rand(t)
			records := drawRecords(r, 3000)
			peerDSN := testenv.PythonDatabase(t)
			execute(t, peerDSN, seedStatements)
			values := runPeer(t, peerDSN, records, 7+run*150)

			s := newStream(t, 1)
			execute(t, s.dsn, seedStatements)
			rejected := 0
			for part := range slices.Chunk(values, 500) {
				s.produce(0, part...)
				// These records would end the Python scheduler.
				s.produce(0, []byte("rubbish"), visitOf(1, 1, map[string]any{"status": "great"}))
				rejected += 2
			}
			// Our batches differ from the Python scheduler's; each continues from the one before.
			o, done, want := s.options(), int64(0), int64(len(values)+rejected)
			for done < want {
				o.StopAfterObjects = 1 + r.Int64N(want/3)
				done += s.run(o)
			}
			if done != want {
				t.Errorf("%d records processed, want %d", done, want)
			}
			if diff := cmp.Diff(table(t, peerDSN, statsQuery), s.stats()); diff != "" {
				t.Errorf("origin_visit_stats (-peer +ours):\n%s", diff)
			}
			if diff := cmp.Diff(table(t, peerDSN, originsQuery), table(t, s.dsn, originsQuery)); diff != "" {
				t.Errorf("listed_origins (-peer +ours):\n%s", diff)
			}
			if got := len(table(t, s.dsn, rejectedQuery)); got != rejected {
				t.Errorf("%d records set aside, want %d", got, rejected)
			}
		})
	}
}

// runPeer applies the records with the Python scheduler to its database, and returns their values as it
// serialises them.
func runPeer(t *testing.T, dsn string, records []peerRecord, batchSize int) [][]byte {
	t.Helper()
	job, err := json.Marshal(map[string]any{"dsn": dsn, "records": records, "batch_size": batchSize})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "testdata/peer.py")
	cmd.Stdin = bytes.NewReader(job)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the Python scheduler: %v\n%s", err, stderr.String())
	}
	var values [][]byte
	for line := range strings.Lines(string(out)) {
		value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	if len(values) != len(records) {
		t.Fatalf("%d values of %d records", len(values), len(records))
	}
	return values
}
