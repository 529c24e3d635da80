package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/msgpack"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/postgres"
)

// hostile are calls whose bodies were made to take much memory, about n bytes each. FuzzCalls starts from
// them.
func hostile(n int) []hostileCall {
	text := strings.Repeat("\x00", n)
	quoted := `"` + strings.Repeat(`\u0000`, n/6) + `"`
	tag := func(name string, value []byte) []byte {
		return append(msgpack.AppendText([]byte("\x82\xc4\x07swhtype"), name), append([]byte("\xc4\x01d"), value...)...)
	}
	packed := func(s string) []byte { return msgpack.AppendText(nil, s) }
	argument := func(name string, value []byte) []byte {
		return append(msgpack.AppendText([]byte{0x81}, name), value...)
	}
	list := func(n int, element string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)), strings.Repeat(element, n)...)
	}
	// Heads, one in another, that each claim all of what is left.
	var claims []byte
	for depth := range 511 {
		claims = binary.BigEndian.AppendUint32(append(claims, 0xdd), uint32(max(0, n-5*depth-5)))
	}
	claims = append(claims, strings.Repeat("\xc0", max(0, n-len(claims)))...)
	for i := range 511 {
		binary.BigEndian.PutUint32(claims[5*i+1:], uint32(max(0, len(claims)-5*i-5)))
	}
	task := func(kwargs []byte) []byte {
		arguments := tag("scheduler_model", append(append([]byte("\x83\xa8__type__\xadTaskArguments\xa4args\x90\xa6kwargs\x81\xa1x"), kwargs...), nil...))
		return tag("scheduler_model", append(append([]byte("\x84\xa8__type__\xa4Task\xa4type\xa1t\xa8next_run\xd6\xff\x60\x00\x00\x00\xa9arguments"), arguments...), nil...))
	}
	stats := tag("scheduler_model", []byte("\x83\xa8__type__\xb0OriginVisitStats\xa3url\xa1u\xaavisit_type\xa1t"))
	calls := []hostileCall{
		{"a date of NULs", "task/search", mimeMsgpack, func() []byte { return argument("before", tag("datetime", packed(text))) }},
		{"a date of NULs in JSON", "task/search", mimeJSON, func() []byte { return []byte(`{"before": {"swhtype": "datetime", "d": ` + quoted + `}}`) }},
		{"a text as a date", "task/search", mimeMsgpack, func() []byte { return argument("before", packed(text)) }},
		{"nils as origins", "origins/record", mimeMsgpack, func() []byte { return argument("listed_origins", list(n, "\xc0")) }},
		{"nils after an origin", "visit_stats/upsert", mimeMsgpack, func() []byte {
			return argument("origin_visit_stats",
				append(append(binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n+1)), stats...), strings.Repeat("\xc0", n)...))
		}},
		{"nils as keys", "visit_stats/get", mimeMsgpack, func() []byte { return argument("ids", list(n, "\xc0")) }},
		{"nils as runs to delete", "task/delete_archived", mimeMsgpack, func() []byte { return argument("task_ids", list(n, "\xc0")) }},
		{"nils as numbers", "task/get", mimeMsgpack, func() []byte { return argument("task_ids", list(n, "\xc0")) }},
		{"nils as texts", "task/search", mimeMsgpack, func() []byte { return argument("task_type", list(n, "\xc0")) }},
		{"empty texts as identifiers", "listers/get_by_id", mimeMsgpack, func() []byte { return argument("lister_ids", list(n, "\xa0")) }},
		{"empty dicts", "task_type/get", mimeMsgpack, func() []byte { return argument("task_type_name", list(n, "\x80")) }},
		{"heads that claim what is left", "task_type/get", mimeMsgpack, func() []byte { return claims }},
		{"heads of dicts that claim what is left", "task_type/get", mimeMsgpack, func() []byte { return bytes.ReplaceAll(claims, []byte{0xdd}, []byte{0xdf}) }},
		{"a key", "task_type/get", mimeMsgpack, func() []byte { return argument(text, []byte{0xc0}) }},
		{"a key in JSON", "task_type/get", mimeJSON, func() []byte { return []byte("{" + quoted + ": null}") }},
		{"a key of bytes", "task_type/get", mimeMsgpack, func() []byte { return append(msgpack.AppendBytes([]byte{0x81}, []byte(text)), 0xc0) }},
		{"a field", "lister/update", mimeMsgpack, func() []byte {
			return argument("lister", tag("scheduler_model", append(append([]byte("\x82\xa8__type__\xa6Lister"), packed(text)...), 0xc0)))
		}},
		{"a class", "lister/update", mimeMsgpack, func() []byte {
			return argument("lister", tag("scheduler_model", append([]byte("\x81\xa8__type__"), packed(text)...)))
		}},
		{"a list as a class", "lister/update", mimeMsgpack, func() []byte {
			return argument("lister", tag("scheduler_model", append([]byte("\x81\xa8__type__"), list(n, "\xc0")...)))
		}},
		{"a unit", "origins/grab_next", mimeMsgpack, func() []byte {
			return argument("absolute_cooldown", tag("timedelta", append(append([]byte{0x81}, packed(text)...), 1)))
		}},
		{"bytes as a unit", "origins/grab_next", mimeMsgpack, func() []byte {
			return argument("absolute_cooldown", tag("timedelta", append(msgpack.AppendBytes([]byte{0x81}, []byte(text)), 1)))
		}},
		{"a visit status", "visit_stats/upsert", mimeMsgpack, func() []byte { return argument("origin_visit_stats", tag("last_visit_status", packed(text))) }},
		{"a list as a visit status", "visit_stats/upsert", mimeMsgpack, func() []byte { return argument("origin_visit_stats", tag("last_visit_status", list(n, "\xff"))) }},
		{"a UUID", "origins/get", mimeMsgpack, func() []byte { return argument("lister_id", tag("uuid", packed(strings.Repeat("urn:", n/4)))) }},
		{"a text as a UUID", "origins/get", mimeMsgpack, func() []byte { return argument("lister_id", packed(strings.Repeat("-", n))) }},
		{"a text as a number", "task/get", mimeMsgpack, func() []byte { return argument("task_ids", append([]byte{0x91}, packed(strings.Repeat("1", n))...)) }},
		{"a number", "task/get", mimeJSON, func() []byte { return []byte(`{"task_ids": [` + strings.Repeat("1", n) + `]}`) }},
		{"a float", "task/get", mimeJSON, func() []byte { return []byte(`{"task_ids": [0.` + strings.Repeat("1", n) + `]}`) }},
		{"an integer of bytes", "task/get", mimeMsgpack, func() []byte {
			return append([]byte{0x81, 0xa8}, append([]byte("task_ids"), msgpack.AppendExt(nil, extLongInt, []byte(text))...)...)
		}},
		{"integers of bytes", "task/get", mimeMsgpack, func() []byte {
			return argument("task_ids", list(n/1028, "\xc8\x04\x00\x01"+strings.Repeat("\xff", 1024)))
		}},
		{"an unknown extension", "task/get", mimeMsgpack, func() []byte { return argument("task_ids", msgpack.AppendExt(nil, 77, []byte(text))) }},
		{"a policy", "origins/grab_next", mimeMsgpack, func() []byte {
			return append(append([]byte("\x83\xaavisit_type\xa1t\xa5count\x01\xa6policy"), packed(text)...), nil...)
		}},
		{"a list as a policy", "origins/grab_next", mimeMsgpack, func() []byte {
			return append([]byte("\x83\xaavisit_type\xa1t\xa5count\x01\xa6policy"), list(n, "\xff")...)
		}},
		{"a text of types", "task/search", mimeMsgpack, func() []byte { return argument("task_type", packed(text)) }},
		{"a snapshot", "visit_stats/upsert", mimeMsgpack, func() []byte {
			return argument("origin_visit_stats", append([]byte{0x91}, tag("scheduler_model", append([]byte("\x84\xa8__type__\xb0OriginVisitStats\xa3url\xa1u\xaavisit_type\xa1t\xadlast_snapshot"), msgpack.AppendBytes(nil, []byte(text))...))...))
		}},
		{"a lister's name", "origins/grab_next", mimeMsgpack, func() []byte {
			return append(append([]byte("\x85\xaavisit_type\xa1t\xa5count\x01\xa6policy\xb6oldest_scheduled_first\xb4lister_instance_name\xa0\xablister_name"), packed(text)...), nil...)
		}},
		{"a task type", "task_type/get", mimeMsgpack, func() []byte { return argument("task_type_name", packed(text)) }},
		{"a text that grows in JSON", "task/create", mimeMsgpack, func() []byte {
			return argument("tasks", append([]byte{0x91}, task(packed(strings.Repeat("\x01", n)))...))
		}},
		{"a list of nils in JSON", "task/create", mimeMsgpack, func() []byte { return argument("tasks", append([]byte{0x91}, task(list(n, "\xc0"))...)) }},
		{"keys of numbers in JSON", "task_run/end", mimeMsgpack, func() []byte {
			return append([]byte("\x83\xaabackend_id\xa1b\xa6status\xa6failed\xa8metadata"), append(binary.BigEndian.AppendUint32([]byte{0xdf}, uint32(n/6)), strings.Repeat("\xce\xff\xff\xff\xff\xc0", n/6)...)...)
		}},
		{"a dict that is no object", "task_run/end", mimeMsgpack, func() []byte {
			return append([]byte("\x83\xaabackend_id\xa1b\xa6status\xa6failed\xa8metadata"), append(binary.BigEndian.AppendUint32([]byte{0xdf}, uint32(n/2)), strings.Repeat("\xc4\x00", n/2)[:n/2*2]...)...)
		}},
		{"no JSON", "task/get", mimeJSON, func() []byte { return []byte(text) }},
		{"lists in JSON", "task/get", mimeJSON, func() []byte { return []byte("[" + strings.Repeat("[],", n/3) + "[]]") }},
		{"dicts in JSON", "task/get", mimeJSON, func() []byte { return []byte(`[` + strings.Repeat(`{"":0},`, n/7) + "0]") }},
		{"one key many times", "task/get", mimeJSON, func() []byte { return []byte(`{` + strings.Repeat(`"task_ids":0,`, n/13) + `"task_ids":0}`) }},
		{"numbers in JSON", "task/get", mimeJSON, func() []byte { return []byte(`{"task_ids": [` + strings.Repeat("1,", n/2) + "1]}") }},
		{"bytes in JSON", "task/get", mimeJSON, func() []byte {
			return []byte(`{"task_ids": {"swhtype": "bytes", "d": "` + strings.Repeat("~", n) + `"}}`)
		}},
		{"a graph as text", "task_graph/check", mimeMsgpack, func() []byte { return argument("graph", packed(strings.Repeat("\x00", n))) }},
		{"a graph in brackets", "task_graph/check", mimeMsgpack, func() []byte { return argument("graph", packed(strings.Repeat("[", n))) }},
		{"a graph of dashes", "task_graph/check", mimeMsgpack, func() []byte { return argument("graph", packed(strings.Repeat("- ", n/2))) }},
		{"a graph's name", "task_graph/submit", mimeMsgpack, func() []byte { return argument("graph", packed(`{"tasks": [{"name": "`+strings.Repeat("x", n)+`"}]}`)) }},
		{"a graph's unknown key", "task_graph/submit", mimeMsgpack, func() []byte { return argument("graph", packed(`{"tasks": [{"`+strings.Repeat("x", n)+`": 1}]}`)) }},
		{"a graph of nothing", "task_graph/submit", mimeMsgpack, func() []byte { return argument("graph", packed(`{"tasks": [`+strings.Repeat("0,", n/2)+`0]}`)) }},
		{"a graph of lists", "task_graph/extend", mimeMsgpack, func() []byte {
			return append([]byte("\x82\xa8graph_id\x01\xa5graph"), packed(`{"tasks": [{"name": "a", "type": "t", "args": [], "kwargs": {}, "depends_on": [`+strings.Repeat("[],", n/3)+`0]}]}`)...)
		}},
		{"a format", "task_graph/show", mimeMsgpack, func() []byte { return append([]byte("\x82\xa8graph_id\x01\xa6format"), packed(text)...) }},
		{"a run's status", "task_run/schedule", mimeMsgpack, func() []byte {
			return argument("task_runs", tag("scheduler_model", append([]byte("\x83\xa8__type__\xa7TaskRun\xa4task\x01\xa6status"), packed(text)...)))
		}},
	}
	return calls
}

type hostileCall struct {
	name, path, mime string
	body             func() []byte
}

// deaf is a server whose database refuses connections.
func deaf(t testing.TB) *Server {
	t.Helper()
	store, err := db.Open(t.Context(), "postgresql://nobody@127.0.0.1:1/nothing", postgres.Options{Command: "rpc-serve"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	server, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Store: store, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.listener.Close() })
	return server
}

// judge makes a call. It returns the bytes allocated for it, and the allowed bytes: some for each byte of its body
// and for each value in it.
func (h hostileCall) judge(t testing.TB, s *Server) (allocated, most uint64) {
	t.Helper()
	body := h.body()
	request := httptest.NewRequest(http.MethodPost, "/"+h.path, bytes.NewReader(body))
	request.Header.Set("Content-Type", h.mime)
	answer := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.handler.ServeHTTP(answer, request)
	runtime.ReadMemStats(&after)
	if answer.Code != http.StatusOK && answer.Body.Len() > 10_000 {
		t.Errorf("%s: an answer %d of %d bytes", h.name, answer.Code, answer.Body.Len())
	}
	values := 0
	if h.mime == mimeMsgpack {
		r := msgpack.Reader{Rest: body}
		for len(r.Rest) > 0 {
			values++
			if _, err := r.Next(); err != nil {
				r.Rest = r.Rest[min(1, len(r.Rest)):]
			}
		}
	} else {
		for d := json.NewDecoder(bytes.NewReader(body)); ; values++ {
			if _, err := d.Token(); err != nil {
				break
			}
		}
	}
	perByte, perValue := 16, 96
	if h.mime == mimeJSON {
		perValue = 320 // encoding/json makes a value of each token
	}
	if strings.HasPrefix(h.path, "task_graph/") {
		perByte = 1000 // a graph is a text with values in it, each a node; of YAML fewer are taken
	}
	return after.TotalAlloc - before.TotalAlloc, uint64(perByte*len(body) + perValue*min(values, defaultLimits.values) + 1<<20)
}

// Whatever a body claims, memory is allocated only for its actual contents, and an error is short.
func TestHostileBodies(t *testing.T) {
	s := deaf(t)
	for _, h := range hostile(1 << 20) {
		t.Run(strings.ReplaceAll(h.name, " ", "_"), func(t *testing.T) {
			if allocated, most := h.judge(t, s); allocated > most {
				t.Errorf("%.1f MiB were allocated for a body of %.1f; want %.1f at most", mib(allocated), mib(uint64(len(h.body()))), mib(most))
			}
		})
	}
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// FuzzCalls makes any call with any arguments. No server takes more memory than the body justifies.
func FuzzCalls(f *testing.F) {
	s := deaf(f)
	places := map[string]int{}
	for i, ep := range endpoints {
		places[ep.path] = i
		f.Add(uint8(i), false, []byte("\x80"))
		f.Add(uint8(i), true, []byte("{}"))
	}
	for _, h := range hostile(3000) {
		f.Add(uint8(places[h.path]), h.mime == mimeJSON, h.body())
	}
	f.Fuzz(func(t *testing.T, endpoint uint8, inJSON bool, body []byte) {
		ep := endpoints[int(endpoint)%len(endpoints)]
		h := hostileCall{fmt.Sprintf("%s %.100q", ep.path, body), ep.path, mimeMsgpack, func() []byte { return body }}
		if inJSON {
			h.mime = mimeJSON
		}
		if allocated, most := h.judge(t, s); allocated > most {
			t.Errorf("%s: %d bytes were allocated for a body of %d; want %d at most", h.name, allocated, len(body), most)
		}
	})
}
