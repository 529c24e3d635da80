package config

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/seed"
)

// relay passes connections to RabbitMQ, and stores the bytes that clients send.
type relay struct {
	net.Listener
	testenv.Buffer
}

func startRelay(t *testing.T, listener net.Listener, target string) *relay {
	t.Helper()
	r := &relay{Listener: listener}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := r.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer client.Close()
				server, err := net.Dial("tcp", target)
				if err != nil {
					t.Error(err)
					return
				}
				defer server.Close()
				open.Go(func() {
					_, _ = io.Copy(client, server)
					_ = client.Close()
				})
				_, _ = io.Copy(io.MultiWriter(r, server), client) // stored before RabbitMQ can answer
			})
		}
	})
	t.Cleanup(func() {
		_ = r.Close()
		open.Wait()
	})
	return r
}

// connects returns the error of connecting to the broker of a configuration.
func connects(t *testing.T, text string) error {
	t.Helper()
	c, warnings, err := parse("F", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	broker, err := c.Broker()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = celery.NewControl(broker, celery.ControlOptions{Timeout: 1}).Ping(ctx, celery.Destination{})
	return err
}

// With broker_use_ssl the password is never sent in clear, whatever the URL's scheme. The broker's certificate is
// verified.
func TestBrokerUseSSL(t *testing.T) {
	t.Parallel()
	mq := testenv.RabbitMQ(t)
	u := testenv.URL(t, mq.URL)
	target, password := u.Host, "guest"
	at := func(listener net.Listener) (r *relay, brokerURL string) {
		r = startRelay(t, listener, target)
		plain := *u
		plain.Host, plain.Scheme = listener.Addr().String(), "amqp"
		return r, plain.String()
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	inClear, address := at(listen())
	if err := connects(t, "celery: {task_broker: "+address+"}"); err != nil || !strings.Contains(inClear.String(), password) {
		t.Fatalf("without TLS: %v, and the relay saw %q", err, inClear)
	}
	for _, tls := range []string{"broker_use_ssl: true", "broker_use_ssl: {cert_reqs: 0}", "broker_transport_options: {ssl: true}"} {
		inClear, address := at(listen())
		if err := connects(t, "celery: {task_broker: "+address+", "+tls+"}"); err == nil {
			t.Errorf("%s: connected to a port without TLS", tls)
		}
		if sent := inClear.String(); strings.Contains(sent, password) || !strings.HasPrefix(sent, "\x16\x03") {
			t.Errorf("%s: sent in clear: %q", tls, sent)
		}
	}

	server := httptest.NewTLSServer(nil) // for its certificate, of example.com and 127.0.0.1
	defer server.Close()
	ca := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	_, address = at(tls.NewListener(listen(), &tls.Config{Certificates: server.TLS.Certificates}))
	for settings, works := range map[string]bool{
		"true":                                 false, // no authority has signed the certificate
		"{ca_certs: " + ca + "}":               true,
		"{cert_reqs: 0}":                       true,
		"{cert_reqs: CERT_NONE}":               true,
		"{cert_reqs: 2}":                       false,
		"{cert_reqs: 2, ca_certs: " + ca + "}": true,
		"{ca_certs: " + ca + ", server_hostname: example.com}":   true,
		"{ca_certs: " + ca + ", server_hostname: example.org}":   false,
		"{ca_certs: " + ca + ", server_hostname: null}":          true,
		"{ca_certs: " + filepath.Join(t.TempDir(), "none") + "}": false,
	} {
		if err := connects(t, "celery: {task_broker: "+address+", broker_use_ssl: "+settings+"}"); (err == nil) != works {
			t.Errorf("broker_use_ssl: %s: %v", settings, err)
		}
	}
}

// With some Celery settings the Python scheduler would send or connect otherwise than our daemons. The loader refuses
// these by name or warns of them. Without a need for the broker they are no error.
func TestCeleryIsHonouredOrRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ keys, refused, warned string }{
		{keys: "task_serializer: json, task_routes: null, task_default_delivery_mode: 2, task_protocol: 2, task_always_eager: no, task_queues: [a, b]"},
		{keys: "task_default_delivery_mode: persistent, broker_transport: pyamqp, broker_failover_strategy: round-robin"},
		{keys: "broker_read_url: amqp://u:s3cret@h//, broker_write_url: amqp://u:s3cret@h//"},
		{keys: "broker_transport_options: {confirm_publish: true}, broker_connection_retry: true, broker_use_ssl: false"},
		{keys: "broker_transport_options: {confirm_publish: false}", warned: "celery.broker_transport_options.confirm_publish has no effect: the broker confirms each"},
		{keys: "broker_transport_options: {max_retries: 3}", warned: "celery.broker_transport_options.max_retries has no effect"},
		{keys: "broker_read_url: amqp://u:s3cret@other//", refused: "F:1:63: celery.broker_read_url names another broker"},
		{keys: "broker_write_url: amqp://other//", refused: "celery.broker_write_url names another broker"},
		{keys: "broker_login_method: GSSAPI", refused: "login_method must be PLAIN or EXTERNAL"},
		{keys: "broker_connection_timeout: -1", refused: "F:1:73: celery.broker_connection_timeout must be a number"},
		{keys: "broker_use_ssl: {ciphers: ALL}", refused: "celery.broker_use_ssl.ciphers can't be given"},
		{keys: "broker_use_ssl: {cert_reqs: 7}", refused: "celery.broker_use_ssl.cert_reqs must be 0, 1, 2"},
		{keys: "broker_use_ssl: {keyfile: k}", refused: "certfile and keyfile must be given together"},
		{keys: "broker_transport_options: {host: other}", refused: "celery.broker_transport_options.host is not supported"},
		{keys: "broker_user: other", refused: "celery.broker_user can't be given: write it in task_broker"},
		{keys: "broker_password: s3cret2", refused: "celery.broker_password can't be given"},
		{keys: "broker_transport: redis", refused: "celery.broker_transport must be amqp or pyamqp"},
		{keys: "broker_failover_strategy: shuffle", refused: "celery.broker_failover_strategy must be round-robin"},
		{keys: "task_serializer: pickle", refused: "celery.task_serializer must be json or msgpack"},
		{keys: "task_serializer: yaml", refused: "celery.task_serializer must be json or msgpack"},
		{keys: "task_compression: lz4", refused: "celery.task_compression must be application/x-brotli or"},
		{keys: "task_compression: bzip2", refused: "celery.task_compression must be application/x-brotli or"},
		{keys: "task_compression: zstd, task_queues: {a: null}"},
		{keys: "task_default_delivery_mode: 3", refused: "celery.task_default_delivery_mode must be 1, 2"},
		{keys: "task_create_missing_queue_exchange_type: topic", refused: "celery.task_create_missing_queue_exchange_type must be direct"},
		{keys: "task_default_exchange: x", warned: "celery.task_default_exchange has no effect"},
		{keys: "task_default_priority: 3", warned: "celery.task_default_priority has no effect"},
		{keys: "task_routes: module.function", refused: "celery.task_routes can't be given"},
		{keys: "task_routes: [{a: b}, module.function]", refused: "celery.task_routes[1] can't be given"},
		{keys: "task_routes: [[a, b]]", refused: "celery.task_routes[0] must be a list of lists of pairs"},
		{keys: "task_routes: {a: 3}", refused: "celery.task_routes.a must be the name of a queue"},
		{keys: "task_routes: {a: {expires: 3}}", refused: "celery.task_routes.a.expires is not supported in a route"},
		{keys: "task_routes: {a: {priority: 256}}", refused: "celery.task_routes.a.priority must be a whole number from 0 to 255"},
		{keys: "task_routes: {a: {serializer: pickle}}", refused: "celery.task_routes.a.serializer must be json or msgpack"},
		{keys: "task_routes: {a: {exchange: x, routing_key: k}}", refused: "celery.task_routes.a has an exchange and no queue"},
		{keys: "task_routes: {a: {queue: q, exchange_type: topic}}", refused: "celery.task_routes.a has an exchange_type"},
		{keys: "task_queues: {a: {exchange: b}}", warned: "celery.task_queues.a has no effect but its name"},
		{keys: "task_queues: a", refused: "celery.task_queues must be a list of names"},
		{keys: "task_queue_max_priority: 256", refused: "celery.task_queue_max_priority must be a whole number from 1 to 255"},
		{keys: "task_queues: [{name: b}]", refused: "celery.task_queues must be a list of names"},
		{keys: "BROKER_USE_SSL: true", refused: "celery.BROKER_USE_SSL is an old name"},
		{keys: "CELERY_TASK_SERIALIZER: yaml", refused: "celery.CELERY_TASK_SERIALIZER is an old name"},
		{keys: "CELERYD_CONCURRENCY: 3", warned: "celery.CELERYD_CONCURRENCY is not a known key"},
		{keys: "broker_url: amqp://other//", warned: "celery.broker_url has no effect"},
		{keys: "broker_pool_limit: 1", warned: "celery.broker_pool_limit has no effect"},
		{keys: "task_publish_retry: false", warned: "celery.task_publish_retry has no effect"},
	} {
		c, warnings, err := parse("F", []byte("celery: {task_broker: 'amqp://u:s3cret@h//', "+tc.keys+"}"))
		if err != nil {
			t.Errorf("%s: %v", tc.keys, err)
			continue
		}
		_, err = c.Broker()
		for what, s := range map[string]struct{ got, want string }{"refused": {fmt.Sprint(err), tc.refused}, "warned": {fmt.Sprint(warnings), tc.warned}} {
			if s.want == "" && s.got != "<nil>" && s.got != "[]" || !strings.Contains(s.got, s.want) || strings.Contains(s.got, "s3cret") {
				t.Errorf("%s: %s: %s, want %q", tc.keys, what, s.got, s.want)
			}
		}
	}
	c, _, err := parse("F", []byte("celery: {broker_write_url: amqp://h//, task_broker: amqp://h//}")) // in any order
	if err == nil {
		_, err = c.Broker()
	}
	if err != nil {
		t.Error(err)
	}
	if _, _, err := parse("F", []byte("celery: {broker_use_ssl: maybe}")); err == nil {
		t.Error("broker_use_ssl: maybe is accepted")
	}
}

// The loader accepts, refuses by name, or warns of each argument of the journal client's constructor.
func TestJournalIsHonouredOrRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ keys, refused, warned string }{
		{keys: "cls: kafka, object_types: [origin_visit_status], create_topics: true, error_reporter: null, process_timeout: null"},
		{keys: "cls: memory", refused: "F:1:16: journal.cls must be kafka"},
		{keys: "object_types: [origin, origin_visit_status]", refused: "journal.object_types must be [origin_visit_status]"},
		{keys: "process_timeout: 3", refused: "journal.process_timeout can't be given"},
		{keys: "value_deserializer: a.b", refused: "journal.value_deserializer can't be given"},
		{keys: "error_reporter: {host: h, password: s3cret}", warned: "journal.error_reporter has no effect"},
		{keys: "stats_cb: 'a:b'", warned: "journal.stats_cb has no effect"},
		{keys: "new_topics: true", warned: "journal.new_topics is not a known key; it is ignored"},
	} {
		c, warnings, err := parse("F", []byte("journal: {"+tc.keys+"}"))
		if err != nil {
			t.Errorf("%s: %v", tc.keys, err)
			continue
		}
		for what, s := range map[string]struct{ got, want string }{"refused": {fmt.Sprint(c.Journal.Refused), tc.refused}, "warned": {fmt.Sprint(warnings), tc.warned}} {
			if s.want == "" && s.got != "<nil>" && s.got != "[]" || !strings.Contains(s.got, s.want) || strings.Contains(s.got, "s3cret") {
				t.Errorf("%s: %s: %s, want %q", tc.keys, what, s.got, s.want)
			}
		}
	}
}

// The loader refuses by name a broker that Celery would take from the environment.
func TestCeleryEnvironment(t *testing.T) {
	for _, name := range []string{"CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"} {
		c := Default()
		c.Celery.TaskBroker = "amqp://u:p@h//"
		t.Setenv(name, string(c.Celery.TaskBroker))
		if _, err := c.Broker(); err != nil {
			t.Errorf("the same broker in %s: %v", name, err)
		}
		t.Setenv(name, "amqp://u:s3cret@other//")
		if _, err := c.Broker(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("another broker in %s: %v", name, err)
		}
		t.Setenv(name, "")
	}
}

// From a section celery we read the same settings as the Python scheduler, and our defaults are its defaults.
func TestCeleryIsReadAsThePythonSchedulerDoes(t *testing.T) {
	t.Parallel()
	configs := []map[string]any{
		{}, {"broker_use_ssl": true}, {"broker_use_ssl": false}, {"broker_use_ssl": map[string]any{"ca_certs": "x"}}, {"broker_use_ssl": map[string]any{}},
		{"task_broker": "amqps://u:p@h//", "broker_use_ssl": false}, {"task_broker": "amqp://u:p@h:1/v", "broker_use_ssl": true},
		{"broker_url": "amqp://other//"}, {"broker_transport": "pyamqp"},
	}
	var keys []string
	for key := range only {
		keys = append(keys, key)
	}
	for _, c := range configs {
		if c["task_broker"] == nil {
			c["task_broker"] = "amqp://u:p@h//"
		}
	}
	random := seed.Rand(t)
	text := func(alphabet string) string {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	var patterns, names []string
	for range 400 {
		patterns, names = append(patterns, text("ab*?[]!-^.")), append(names, text("ab!-^.]["))
	}
	input, err := json.Marshal(map[string]any{"configs": configs, "keys": keys, "patterns": patterns, "names": names})
	if err != nil {
		t.Fatal(err)
	}
	python := exec.CommandContext(t.Context(), testenv.Python(t), "-c", `
import json, os, sys
os.environ["SWH_CONFIG_FILENAME"] = os.devnull
os.environ.pop("SWH_WORKER_INSTANCE", None)
import inspect
from celery.app.routes import MapRoute
from swh.journal.client import JournalClientBase
from swh.scheduler.celery_backend.config import build_app
def reached(config):
    c = build_app(config).connection_for_write()
    secure = bool(c.ssl) or c.transport_cls == "amqps"
    c.ssl = secure
    return "%s://%s:***@%s:%d/%s" % ("amqps" if secure else "amqp", c.userid, c.hostname, c.port or (5671 if secure else 5672), c.virtual_host)
asked = json.load(sys.stdin)
conf = build_app({"task_broker": "amqp://h"}).conf
print(json.dumps({"reached": [reached(c) for c in asked["configs"]], "defaults": {k: conf[k] if isinstance(conf[k], (str, int, bool)) else None for k in asked["keys"]},
    "journal": [k for k, p in inspect.signature(JournalClientBase.__init__).parameters.items() if k != "self" and p.kind != p.VAR_KEYWORD],
    "matches": [[n for n in asked["names"] if MapRoute({p: "q"})(n)] for p in asked["patterns"]]}))`)
	python.Stdin = bytes.NewReader(input)
	out, err := python.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Reached  []string
		Defaults map[string]any
		Journal  []string // the keys of its client
		Matches  [][]string
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, section := range configs {
		text, err := json.Marshal(map[string]any{"celery": section})
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := parse("F", text)
		if err != nil {
			t.Fatal(err)
		}
		broker, err := c.Broker()
		if got := strings.ReplaceAll(broker.String(), "%2F", "/"); err != nil || got != want.Reached[i] {
			t.Errorf("%s: %s, %v; the Python scheduler reaches %s", text, got, err, want.Reached[i])
		}
	}
	for key, value := range want.Defaults {
		values := only[key].values
		if value != nil && (len(values) == 0 || fmt.Sprint(value) != values[0]) {
			t.Errorf("%s is %v by default, want %v", key, value, values)
		}
	}
	for _, key := range append(want.Journal, "cls", "stats_cb") {
		if _, warnings, err := parse("F", []byte("journal: {"+key+": null}")); err != nil || len(warnings) > 0 {
			t.Errorf("the Python scheduler reads journal.%s: %v, %v", key, err, warnings)
		}
	}
	compared := 0
	for i, pattern := range patterns {
		task, err := celery.TaskPattern(pattern)
		if err != nil {
			continue // such as [b-a]*, which is refused
		}
		var got []string
		for _, name := range names {
			if task.MatchString(name) {
				got = append(got, name)
			}
		}
		if compared++; !slices.Equal(got, want.Matches[i]) {
			t.Errorf("the pattern %q matches %q, want %q", pattern, got, want.Matches[i])
		}
	}
	if compared < len(patterns)/2 {
		t.Errorf("only %d of %d patterns are accepted", compared, len(patterns))
	}
}
