package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/bench"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/msgpack"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/tasks"
)

// target is a server that is attacked, a process of its own, with the limit of memory that is
// shipped for it. It has 200 MB of tasks.
type target struct {
	*testing.B
	url, dsn string
	memory   func() (now, peak float64) // MiB

	mutex    sync.Mutex
	statuses map[int]int // answers to the attack; 0: the connection was closed without one
}

func newTarget(b *testing.B, program bench.Program, dsn string) *target {
	b.Helper()
	var cmd *exec.Cmd
	url, _ := bench.Serve(b, func(address string) *exec.Cmd {
		host, port, _ := strings.Cut(address, ":")
		cmd = program.Command(bench.ConfigFile(b, dsn, ""), "rpc-serve", "--host", host, "--port", port)
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=410MiB")
		return cmd
	})
	return &target{B: b, url: url, dsn: dsn, memory: func() (float64, float64) { return bench.Memory(b, cmd) }, statuses: map[int]int{}}
}

// answered counts a response to the attack.
func (t *target) answered(response *http.Response, err error) {
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.statuses[status]++
}

// calls makes concurrent calls and waits for their responses.
func (t *target) calls(n int, path, contentType string, body []byte, header ...string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			request, err := http.NewRequest(http.MethodPost, t.url+path, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", contentType)
			for i := 0; i+1 < len(header); i += 2 {
				request.Header.Set(header[i], header[i+1])
			}
			response, err := client.Do(request)
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			t.answered(response, err)
		})
	}
	wait.Wait()
}

// silent opens connections and sends some text on each. It reads nothing for a while, and then waits until the
// server has closed them all.
func (t *target) silent(n int, text string, unread time.Duration) {
	var open []net.Conn
	for range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(t.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, text); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.answered(nil, err)
			continue
		}
		open = append(open, conn)
	}
	time.Sleep(unread)
	for _, conn := range open {
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection is still open")
		}
		t.answered(nil, io.EOF)
	}
}

// lists is a body of msgpack: a list of n empty ones.
func lists(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)), bytes.Repeat([]byte{0x90}, n)...)
}

// batch is the argument of a call that writes a list of objects, as valid ones of so many bytes in all: with long texts,
// each of them another.
func batch(path string, size int) []byte {
	text := strings.Repeat("\x01", 2000)
	now := time.Now()
	argument, write := map[string]string{"origins/record": "listed_origins", "visit_stats/upsert": "origin_visit_stats", "task/create": "tasks"}[path], func(f *fields, i int) {
		switch path {
		case "origins/record":
			listedOrigins.write(f, &model.ListedOrigin{ListerID: uuid.UUID{15: 1}, URL: fmt.Sprint(i, text), VisitType: "git", ExtraLoaderArguments: emptyObject, Enabled: true})
		case "visit_stats/upsert":
			visitStats.write(f, &model.VisitStats{URL: fmt.Sprint(i, text), VisitType: "git"})
		case "task/create":
			newTasks.write(f, &tasks.NewTask{Type: "t", NextRun: now, Arguments: model.TaskArguments{Args: json.RawMessage(`["` + fmt.Sprint(i) + strings.Repeat(`\u0001`, len(text)) + `"]`)}})
		}
	}
	w := &msgpackWriter{}
	n := 0
	for ; len(w.buf) < size; n++ {
		write(&fields{out: w}, n)
	}
	body := binary.BigEndian.AppendUint32(append(msgpack.AppendText([]byte{0x81}, argument), 0xdd), uint32(n))
	return append(body, w.buf...)
}

// attacks are the rows of the table in docs/devel/attacks.md that have figures, and the answers
// that an attacker may get.
var attacks = []struct {
	name  string
	run   func(*target)
	wants []int
}{
	{"nothing", func(*target) { time.Sleep(5 * time.Second) }, nil},
	{"500_slow_headers", func(t *target) { t.silent(500, "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\n", 0) }, []int{0}},
	{"500_slow_bodies", func(t *target) {
		const head = "POST /task_type/get_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
		var wait sync.WaitGroup
		wait.Go(func() { t.silent(250, head, 0) })
		wait.Go(func() { t.silent(250, head+strings.Repeat(" ", smallBody), 0) })
		wait.Wait()
	}, []int{0}},
	{"16_bodies_of_32_MiB", func(t *target) {
		body := bytes.Repeat([]byte{' '}, 32<<20)
		copy(body, "{}")
		t.calls(16, "/task_type/get_all", mimeJSON, body)
	}, []int{200, 503, 0}}, // 0: the answer 503 comes before the body is sent, which the client may not see
	{"16_bodies_of_4_million_lists", func(t *target) { t.calls(16, "/task_type/get_all", mimeMsgpack, lists(3_999_999)) }, []int{413, 503, 0}},
	{"16_bodies_of_a_million_lists", func(t *target) { t.calls(16, "/task_type/get_all", mimeMsgpack, lists(maxValues-1)) }, []int{500, 503, 0}},
	{"hostile_arguments_of_60_MB", func(t *target) {
		for _, h := range hostile(60_000_000) {
			began := time.Now()
			t.calls(2, "/"+h.path, h.mime, gzipped(t, h.body()), "Content-Encoding", "gzip")
			now, peak := t.memory()
			t.Logf("%s: %.0f MiB now, %.0f at most so far, %s", h.name, now, peak, time.Since(began).Round(time.Millisecond))
		}
	}, []int{200, 400, 413, 500, 503, 0}},
	{"4_batches_of_60_MB", func(t *target) {
		for _, path := range []string{"origins/record", "visit_stats/upsert", "task/create"} {
			t.calls(4, "/"+path, mimeMsgpack, batch(path, 60_000_000))
			now, peak := t.memory()
			t.Logf("%s: %.0f MiB now, %.0f at most so far", path, now, peak)
		}
	}, []int{200, 413, 500, 503, 0}},
	{"1100_bodies_that_do_not_come", func(t *target) { t.silent(1100, oneByte, 0) }, []int{0}},
	{"300_bodies_of_65000_lists", func(t *target) { t.calls(300, "/task_type/get_all", mimeMsgpack, lists(65_000)) }, []int{500, 503}},
	{"16_bodies_of_a_million_nested_lists", func(t *target) {
		t.calls(16, "/task_type/get_all", mimeMsgpack, bytes.Repeat([]byte{0x91}, 1_000_000))
	}, []int{413}},
	{"16_bodies_that_grow_to_1_GiB", func(t *target) {
		t.calls(16, "/task_type/get_all", mimeJSON, gzipped(t, make([]byte, 1<<30)), "Content-Encoding", "gzip")
	}, []int{413, 503, 0}},
	{"8_calls_for_200_MB", func(t *target) { t.calls(8, "/task/search", mimeJSON, []byte(`{"task_type": "t"}`)) }, []int{413, 503}},
	{"100_slow_readers_of_10_MB", func(t *target) {
		const call = `{"task_type": "t", "limit": 100}`
		t.silent(100, fmt.Sprintf("POST /task/search HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(call), call), bodyTimeout)
	}, []int{0}},
	{"10000_idle_connections", func(t *target) { t.silent(10_000, "", 0) }, []int{0}},
	{"1500_calls_that_hang", func(t *target) {
		tx := testenv.Begin(t, testenv.Connect(t, t.dsn))
		testenv.Exec(t, tx, "lock table task in access exclusive mode")
		time.AfterFunc(10*time.Second, func() { _ = tx.Rollback(context.Background()) })
		t.calls(1500, "/task/search", mimeJSON, []byte(`{"task_type": "t", "limit": 1}`))
	}, []int{200, 503}},
}

// BenchmarkAttacks measures the cost of attacks for a server: its peak memory, and the time and failures of small
// calls meanwhile, each on its own connection. It prints a table in Markdown. It compares nothing: run it with
// make attacks.
func BenchmarkAttacks(b *testing.B) {
	program := bench.Programs(b)[0]
	dsn := program.Database(b)
	bench.Exec(b, dsn, "insert into task_type (type, description, backend_name) values ('t', '', 't')",
		"insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-0000-0000-000000000001', 'l', 'i', '{}', now())",
		`insert into task (type, arguments, next_run, current_interval, status) select 't', jsonb_build_object('args', '[]'::jsonb, 'kwargs', jsonb_build_object('x', repeat('x', 100000))), '2020-01-01', '1 day', 'next_run_not_scheduled' from generate_series(1, 2000)`)
	var table strings.Builder
	for _, attack := range attacks {
		b.Run(attack.name, func(b *testing.B) {
			t := newTarget(b, program, dsn)
			ended, took, beside := make(chan struct{}), []float64(nil), map[int]int{}
			var wait sync.WaitGroup
			wait.Go(func() {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				for {
					began := time.Now()
					response, err := client.Post(t.url+"/task_type/get", mimeMsgpack, strings.NewReader("\x81\xaetask_type_name\xa1t"))
					if err == nil {
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
						beside[response.StatusCode]++
					} else {
						beside[0]++
					}
					took = append(took, float64(time.Since(began).Microseconds())/1000)
					select {
					case <-ended:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
			attack.run(t)
			close(ended)
			wait.Wait()
			_, peak := t.memory()
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(peak, "MiB")
			b.ReportMetric(took[len(took)/2], "p50-ms")
			b.ReportMetric(took[len(took)-1], "max-ms")
			failed := len(took) - beside[http.StatusOK]
			fmt.Fprintf(&table, "| %s | %s | %.0f MiB | %.0f ms | %.0f ms | %d of %d |\n", attack.name, answersOf(t.statuses), peak, took[len(took)/2], took[(len(took)*99-1)/100], failed, len(took))
			for status, n := range beside {
				b.ReportMetric(float64(n), fmt.Sprintf("beside-%d", status))
			}
			for status, n := range t.statuses {
				b.ReportMetric(float64(n), fmt.Sprintf("answers-%d", status))
				if !slices.Contains(attack.wants, status) {
					b.Errorf("%d answers %d", n, status)
				}
			}
		})
	}
	if table.Len() > 0 {
		fmt.Printf("\n| attack | answers | memory at most | an honest client's p50 | p99 | its errors |\n|---|---|---|---|---|---|\n%s\n", &table)
	}
}

// answersOf writes how often an attack got each status; 0 is a connection that was closed.
func answersOf(statuses map[int]int) string {
	var all []string
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "closed"
		}
		all = append(all, fmt.Sprintf("%s: %d", name, statuses[status]))
	}
	return strings.Join(all, ", ")
}
