package rpc

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// startGunicorn starts the peer's server with two workers, as it is deployed.
func startGunicorn(b *testing.B, dsn string) string {
	b.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(testenv.Python(b), "-W", "ignore", "-m", "gunicorn", "--workers", "2", "--bind", address,
		"--log-level", "critical", "gunicorn_app:app")
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=testdata", "PYTHONDONTWRITEBYTECODE=1", "SWH_TEST_DSN="+dsn)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // killed by our signal
	})
	for deadline := time.Now().Add(time.Minute); ; {
		if response, err := http.Get("http://" + address + "/"); err == nil {
			_ = response.Body.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			b.Fatal("gunicorn doesn't answer")
		}
	}
}

// rate is how a server did.
type rate struct {
	perSecond float64
	p99       time.Duration
}

// measure has clients repeat a call for a while.
func measure(b *testing.B, url string, clients int, body func(client int) []byte) rate {
	b.Helper()
	const lasting = 3 * time.Second
	transport := &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	took := make([][]time.Duration, clients)
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
				took[i] = append(took[i], time.Since(start))
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
	return rate{float64(len(all)) / elapsed.Seconds(), all[len(all)*99/100]}
}

// compareRates measures the peer and us.
func compareRates(b *testing.B, path string, clients int, body func(lister model.Lister, client int) []byte) {
	b.Helper()
	var rates [2]rate
	for b.Loop() {
		for side, start := range []func(string) string{
			func(dsn string) string { return startGunicorn(b, dsn) },
			func(dsn string) string {
				return serve(b, dsn, func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
			},
		} {
			dsn := testenv.Database(b)
			store := openStore(b, dsn)
			lister, err := store.GetOrCreateLister(b.Context(), "gitlab", "i", nil)
			if err == nil {
				err = store.CreateTaskType(b.Context(), model.TaskType{Type: "load-git", Description: "d", BackendName: "b"})
			}
			if err != nil {
				b.Fatal(err)
			}
			rates[side] = measure(b, start(dsn)+path, clients, func(client int) []byte { return body(lister, client) })
		}
	}
	for side, r := range map[string]rate{"peer": rates[0], "ours": rates[1]} {
		bench.Report(b, side, map[string]float64{"calls/s": r.perSecond, "p99-ms": float64(r.p99.Microseconds()) / 1000})
	}
}

// Small calls from 16 clients at once.
func BenchmarkSmallCalls(b *testing.B) {
	compareRates(b, "/task_type/get", 16, func(model.Lister, int) []byte {
		return []byte("\x81\xaetask_type_name\xa8load-git")
	})
}

// Recording 1,000 origins, one call after another.
func BenchmarkRecordListedOrigins(b *testing.B) {
	compareRates(b, "/origins/record", 1, func(lister model.Lister, _ int) []byte { return recordCall(lister, 1000, 0) })
}

// Reading pages of 1,000 origins.
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
