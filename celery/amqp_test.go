package celery_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/testenv"
)

// withQueue returns a broker with the queue "queue", and a channel to it.
func withQueue(t testing.TB) (testenv.Broker, *amqp.Channel) {
	t.Helper()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	testenv.Declare(t, ch, "queue", nil)
	return env, ch
}

// taskIDs empties a queue and counts how often each task id was in it.
func taskIDs(t testing.TB, ch *amqp.Channel, queue string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, d := range testenv.Take(t, ch, queue) {
		ids[d.CorrelationId]++
	}
	return ids
}

// waitReady waits until a queue holds n ready messages.
func waitReady(t testing.TB, brokerURL, queue string, n int) {
	t.Helper()
	ch := testenv.Channel(t, brokerURL)
	testenv.Becomes(t, "messages", n, func() int { return min(n, testenv.Ready(t, ch, queue)) })
}

// manage calls the management API and returns the body of its response.
func manage(t testing.TB, env testenv.Broker, method, path, body string) string {
	t.Helper()
	request, err := http.NewRequest(method, strings.TrimSuffix(env.ManagementURL, "/")+"/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s: %v", method, path, response.Status, text, err)
	}
	return string(text)
}

// bindings returns a queue's bindings, as the management API prints them.
func bindings(t testing.TB, env testenv.Broker, queue string) string {
	t.Helper()
	b := testenv.URL(t, env.URL)
	return manage(t, env, http.MethodGet, "api/queues/"+url.PathEscape(b.Path[1:])+"/"+url.PathEscape(queue)+"/bindings", "")
}

// proxied returns a proxy in front of a broker, and the broker's URL through that proxy.
func proxied(t testing.TB, brokerURL string) (*testenv.Toxic, string) {
	t.Helper()
	through, x := testenv.Through(t, brokerURL, testenv.Proxy)
	return x, through
}

// injector is a proxy that can insert frames between those of the broker. So it plays a broker that is short of memory.
type injector struct {
	addr string
	m    sync.Mutex
	conn net.Conn // to the client connected last

	// A test holds flow to stop reading from clients, as a broker short of memory does. If onlyFirst is set before a
	// client connects, only the first client is affected.
	flow      sync.Mutex
	onlyFirst atomic.Bool
}

// gated waits for flow before each read.
type gated struct {
	net.Conn
	flow *sync.Mutex
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.flow.Lock()
	defer g.flow.Unlock()
	return n, err
}

func injectInto(t testing.TB, listener net.Listener, target string) *injector {
	t.Helper()
	x := &injector{addr: listener.Addr().String()}
	var tasks sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		tasks.Wait()
	})
	tasks.Go(func() {
		flow := &x.flow
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			x.m.Lock()
			x.conn = client
			x.m.Unlock()
			gate := gated{client, flow}
			if x.onlyFirst.Load() {
				flow = new(sync.Mutex)
			}
			tasks.Go(func() {
				_, _ = io.Copy(server, gate)
				_ = server.Close()
			})
			tasks.Go(func() {
				x.frames(client, server)
				_ = client.Close()
			})
		}
	})
	return x
}

// injectBefore returns an injector before the broker at a URL, and the URL by way of it.
func injectBefore(t testing.TB, broker string) (x *injector, through string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x = injectInto(t, listener, testenv.Host(t, broker))
	return x, testenv.WithHost(t, broker, x.addr)
}

// frames copies whole frames, so that injected frames stay between them.
func (x *injector) frames(client, server net.Conn) {
	header := make([]byte, 7)
	for {
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		frame := make([]byte, 7+int(binary.BigEndian.Uint32(header[3:]))+1)
		copy(frame, header)
		if _, err := io.ReadFull(server, frame[7:]); err != nil {
			return
		}
		x.m.Lock()
		_, err := client.Write(frame)
		x.m.Unlock()
		if err != nil {
			return
		}
	}
}

// method sends one method of class connection on channel 0.
func (x *injector) method(t testing.TB, id uint16, arguments []byte) {
	t.Helper()
	payload := binary.BigEndian.AppendUint16([]byte{0, 10}, id)
	payload = append(payload, arguments...)
	frame := binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(payload)))
	frame = append(append(frame, payload...), 0xCE)
	x.m.Lock()
	defer x.m.Unlock()
	if _, err := x.conn.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func (x *injector) block(t testing.TB, reason string) {
	x.method(t, 60, append([]byte{byte(len(reason))}, reason...))
}

func (x *injector) unblock(t testing.TB) { x.method(t, 61, nil) }
