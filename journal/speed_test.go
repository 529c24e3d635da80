package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// speedURL is the SQL expression of the URL of origin n in speedValues.
const speedURL = `'https://example.org/' || lpad(n::text, greatest(length(n::text), 4), '0')`

// speedValues returns n records: visits of n/8 origins in turn, each "created" and then "full". Every
// second visit has a change.
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

// BenchmarkReplay reads 100,000 records, 50,000 visits of 12,500 listed origins, from one partition.
func BenchmarkReplay(b *testing.B) { replay(b, bench.Size(100_000, 4000), 1) }

// BenchmarkReplayOfAll reads 400,000 records over four partitions.
func BenchmarkReplayOfAll(b *testing.B) { replay(b, bench.Size(400_000, 4000), 4) }

// replay reads records of some partitions into the database. It measures from the start of the process to its end;
// for ours, until candidates are up to date. The limit is PostgreSQL's time for the least writes, 1,000 origins in a
// transaction.
func replay(b *testing.B, records, partitions int) {
	s := newStream(b, int32(partitions))
	for some := range slices.Chunk(speedValues(records), 1000*partitions) { // in batches as storages produce them
		parts := make([][][]byte, partitions)
		for i, value := range some {
			part := i / 2 % partitions // both records of a visit
			parts[part] = append(parts[part], value)
		}
		for part, values := range parts {
			s.produce(int32(part), values...)
		}
	}
	listed := fmt.Sprintf(`with l as (insert into listers (name, instance_name, current_state, updated) values ('l', '', '{}', now()) returning id)
		insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen)
		select id, `+speedURL+`, 'git', '{}', true, now() from l, generate_series(0, %d) n`, records/8-1)
	groups := 0
	group := func() string {
		groups++
		return fmt.Sprintf("%s-%d", s.prefix, groups)
	}
	checkVisits := func(dsn string) {
		if got, want := table(b, dsn, "select count(*)::text from origin_visit_stats where last_successful is not null"), fmt.Sprint(records/8); got[0] != want {
			b.Errorf("%s origins have a visit, want %s", got[0], want)
		}
	}

	programs := bench.Programs(b)
	byServers := bench.ByServers(b, programs)
	var sides []bench.Side
	own, peers := []bench.Program{programs[0], byServers[0]}, []bench.Program(nil)
	for _, program := range append(programs[1:], byServers[1]) {
		if program.Side == bench.Before {
			own = append(own, program)
		} else {
			peers = append(peers, program)
		}
	}
	for _, ours := range own {
		sides = append(sides, bench.Side{Name: ours.Side, Run: func() bench.Figures {
			dsn := ours.Database(b)
			bench.Exec(b, dsn, listed)
			store, err := db.Open(b.Context(), dsn, postgres.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			bench.Drain(b, store)
			bench.Exec(b, dsn, "vacuum analyze", "checkpoint")
			config, stop := ours.Config(b, dsn, "", fmt.Sprintf("journal: {brokers: [%s], group_id: %q, prefix: %q}", strings.Join(s.brokers, ","), group(), s.prefix))
			defer stop()
			seconds, processor, memory := bench.Run(b, ours.Command(config, "journal-client", "--stop-after-objects", fmt.Sprint(records)))
			began := time.Now()
			bench.Drain(b, store)
			checkVisits(dsn)
			return bench.Figures{
				"records/s": float64(records) / (seconds + time.Since(began).Seconds()),
				"MiB":       memory, "cpu-µs/record": 1e6 * processor / float64(records),
			}
		}})
	}
	for _, peer := range peers {
		sides = append(sides, bench.Side{Name: peer.Side, Run: func() bench.Figures {
			dsn := peer.Database(b)
			bench.Exec(b, dsn, listed, "vacuum analyze", "checkpoint")
			config, stop := peer.Config(b, dsn, "")
			defer stop()
			job, err := json.Marshal(map[string]any{
				"config": config, "brokers": s.brokers, "group_id": group(), "prefix": s.prefix, "stop_after_objects": records,
			})
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command(testenv.Python(b), "testdata/peer_client.py")
			cmd.Stdin = bytes.NewReader(job)
			seconds, processor, memory := bench.Run(b, cmd)
			checkVisits(dsn)
			return bench.Figures{
				"records/s": float64(records) / seconds, "MiB": memory, "cpu-µs/record": 1e6 * processor / float64(records),
			}
		}})
	}
	sides = append(sides, bench.Side{Name: bench.Limit("PostgreSQL"), Run: func() bench.Figures {
		dsn := testenv.PythonDatabase(b)
		bench.Exec(b, dsn, listed, "vacuum analyze", "checkpoint")
		return bench.Figures{"records/s": float64(records) / bareUpserts(b, dsn, records)}
	}})
	bench.Compare(b, sides...)
}

// bareUpserts writes the final stats of a number of records of speedValues, each visit once, and returns
// the seconds.
func bareUpserts(b *testing.B, dsn string, records int) float64 {
	b.Helper()
	conn := testenv.Connect(b, dsn)
	origins := records / 8
	began := time.Now()
	for done := 0; done < records/2; done += 1000 {
		testenv.Exec(b, conn, `insert into origin_visit_stats (url, visit_type, last_successful, last_visit, last_visit_status,
				last_snapshot, next_visit_queue_position, next_position_offset, successive_visits)
			select `+speedURL+`, 'git', now(), now(), 'successful', '\x0123456789012345678901234567890123456789', 12345, 4, 1
			from generate_series($1::int, $2::int) n
			on conflict (url, visit_type) do update set last_successful = excluded.last_successful, last_visit = excluded.last_visit,
				last_visit_status = excluded.last_visit_status, last_snapshot = excluded.last_snapshot,
				next_visit_queue_position = excluded.next_visit_queue_position, next_position_offset = excluded.next_position_offset,
				successive_visits = excluded.successive_visits`, done%origins, done%origins+min(origins, 1000)-1)
	}
	return time.Since(began).Seconds()
}
