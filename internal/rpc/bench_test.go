package rpc

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// measure has clients repeat a call for a while.
func measure(b *testing.B, url string, clients int, body func(client int) []byte) bench.Figures {
	b.Helper()
	lasting := time.Duration(bench.Size(3000, 500)) * time.Millisecond
	transport := &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	took := make([][]float64, clients) // ms
	var failed atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for i := range clients {
		request := body(i)
		wait.Go(func() {
			for time.Since(began) < lasting {
				start := time.Now()
				r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(request))
				if err != nil {
					failed.Add(1)
					return
				}
				r.Header.Set("Content-Type", mimeMsgpack)
				r.Header.Set("Accept", mimeMsgpack)
				response, err := client.Do(r)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				took[i] = append(took[i], float64(time.Since(start).Microseconds())/1000)
			}
		})
	}
	wait.Wait()
	elapsed := time.Since(began)
	all := slices.Concat(took...)
	slices.Sort(all)
	if n := failed.Load(); n > 0 || len(all) == 0 {
		b.Fatalf("%d calls failed", n)
	}
	return bench.Figures{"calls/s": float64(len(all)) / elapsed.Seconds(), "p50-ms": all[len(all)/2], "p99-ms": all[len(all)*99/100]}
}

// rpcServers start each side's server, as a process on a new database with a lister and a
// task type, and return its URL.
func rpcServers(b *testing.B) (names []string, start map[string]func() (url, dsn string, lister model.Lister, stop func())) {
	b.Helper()
	start = map[string]func() (string, string, model.Lister, func()){}
	for _, program := range bench.Programs(b) {
		names = append(names, program.Side)
		start[program.Side] = func() (string, string, model.Lister, func()) {
			dsn, lister := program.Database(b), model.Lister{ID: uuid.New()}
			bench.Exec(b, dsn, fmt.Sprintf("insert into listers (id, name, instance_name, current_state, updated) values ('%s', 'gitlab', 'i', '{}', now())", lister.ID),
				"insert into task_type (type, description, backend_name) values ('load-git', 'd', 'b')")
			url, stop := bench.Serve(b, func(address string) *exec.Cmd {
				if program.Side != bench.Ours {
					return bench.Gunicorn(b, dsn, address)
				}
				host, port, _ := strings.Cut(address, ":")
				return program.Command(bench.ConfigFile(b, dsn, ""), "rpc-serve", "--host", host, "--port", port)
			})
			return url, dsn, lister, stop
		}
	}
	return names, start
}

// BenchmarkSmallCalls makes small calls from 16 concurrent clients to running servers: ours, and gunicorn with two
// workers. The limit is a server that sends the same response from memory.
func BenchmarkSmallCalls(b *testing.B) {
	const path, clients = "/task_type/get", 16
	request := []byte("\x81\xaetask_type_name\xa8load-git")
	names, start := rpcServers(b)
	url, _, _, stop := start[bench.Ours]()
	_, answer := post(b, url+path, mimeMsgpack, request, "Accept", mimeMsgpack)
	stop()
	answerer := bench.Answerer(b)
	var sides []bench.Side
	for _, name := range names[:2] {
		sides = append(sides, bench.Side{Name: name, Run: func() bench.Figures {
			url, _, _, stop := start[name]()
			defer stop()
			return measure(b, url+path, clients, func(int) []byte { return request })
		}})
	}
	sides = append(sides, bench.Side{Name: bench.Limit("empty_handler"), Run: func() bench.Figures {
		url, stop := bench.Serve(b, func(address string) *exec.Cmd { return answerer(address, mimeMsgpack, answer) })
		defer stop()
		return measure(b, url+path, clients, func(int) []byte { return request })
	}})
	bench.Compare(b, sides...)
}

// BenchmarkRecordListedOrigins records 20,000 new origins, 1,000 a call, one call after another, on running
// servers; for ours until candidates are up to date. The limit is PostgreSQL's own insert, 1,000 in a transaction.
func BenchmarkRecordListedOrigins(b *testing.B) {
	calls := bench.Size(20, 2)
	names, start := rpcServers(b)
	figures := func(took time.Duration) bench.Figures {
		return bench.Figures{"calls/s": float64(calls) / took.Seconds()}
	}
	var sides []bench.Side
	for _, name := range names {
		sides = append(sides, bench.Side{Name: name, Run: func() bench.Figures {
			url, dsn, lister, stop := start[name]()
			defer stop()
			var requests [][]byte
			for call := range calls {
				// Of the same length, which goes before it.
				requests = append(requests, bytes.ReplaceAll(recordCall(lister, 1000, 0), []byte("forge.example"), fmt.Appendf(nil, "forge-%07d", call)))
			}
			began := time.Now()
			for _, request := range requests {
				if response, answer := post(b, url+"/origins/record", mimeMsgpack, request, "Accept", mimeMsgpack); response.StatusCode != http.StatusOK {
					b.Fatalf("%s %s", response.Status, answer)
				}
			}
			if name == bench.Ours {
				store := openStore(b, dsn)
				bench.Drain(b, store)
			}
			return figures(time.Since(began))
		}})
	}
	sides = append(sides, bench.Side{Name: bench.Limit("PostgreSQL"), Run: func() bench.Figures {
		dsn := testenv.PythonDatabase(b)
		statements := make([]string, calls)
		for call := range statements {
			statements[call] = fmt.Sprintf(`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
				select id, 'https://example.org/%d/' || n, 'git', '{}', true, now(), now() from listers, generate_series(1, 1000) n
				on conflict (lister_id, url, visit_type) do update set last_seen = excluded.last_seen, last_update = excluded.last_update`, call)
		}
		bench.Exec(b, dsn, "insert into listers (name, instance_name, current_state, updated) values ('gitlab', 'i', '{}', now())")
		began := time.Now()
		bench.Exec(b, dsn, statements...)
		return figures(time.Since(began))
	}})
	bench.Compare(b, sides...)
}

// BenchmarkGetListedOrigins reads pages of 1,000 origins.
func BenchmarkGetListedOrigins(b *testing.B) {
	const origins = 1000
	dsn := testenv.Database(b)
	store := openStore(b, dsn)
	lister, err := store.GetOrCreateLister(b.Context(), "gitlab", "i", nil)
	if err != nil {
		b.Fatal(err)
	}
	url := serve(b, dsn, func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
	if response, answer := post(b, url+"/origins/record", mimeMsgpack, recordCall(lister, origins, 0)); response.StatusCode != http.StatusOK {
		b.Fatalf("%s %s", response.Status, answer)
	}
	b.ReportAllocs()
	for b.Loop() {
		post(b, url+"/origins/get", mimeMsgpack, nil, "Accept", mimeMsgpack, "Accept-Encoding", "identity")
	}
}
