package celery_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// If a firewall drops the packets to the management port, all queues together wait for one timeout. Once the port
// answers, measurements use it again.
func TestSwallowedManagementCostsOneTimeout(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	const queues, timeout = 30, time.Second
	for i := range queues {
		testenv.Declare(t, ch, fmt.Sprintf("q%d", i), nil)
	}
	proxy := testenv.Proxy(t, testenv.Host(t, env.ManagementURL))
	q := inspector(t, parsed.Broker(t, env.URL), testenv.WithHost(t, env.ManagementURL, proxy.Addr), celery.InspectorOptions{Timeout: timeout})
	proxy.Silence(true)
	began := time.Now()
	for i := range queues {
		if l := length(t, q, fmt.Sprintf("q%d", i), 4); l != (celery.QueueLength{Exists: true, Unacknowledged: 4, Unknown: true}) {
			t.Fatalf("%+v", l)
		}
	}
	took := time.Since(began)
	t.Logf("%d queues took %s", queues, took)
	if took > queues*timeout {
		t.Errorf("%d queues took %s, with a time-out of %s", queues, took, timeout)
	}
	proxy.Cut() // ends the connections that still hang
	proxy.Restore()
	testenv.Becomes(t, "the figures are unknown", false, func() bool { return length(t, q, "q0", 0).Unknown })
}

// CheckManagement sends the same requests as measurements, so both succeed or fail together. Its error has RabbitMQ's
// reason.
func TestCheckManagement(t *testing.T) {
	t.Parallel()
	env, _ := withQueue(t)
	gone := *testenv.URL(t, env.URL)
	gone.Path = "/no-such-vhost"
	for _, tc := range []struct {
		name, password, tags string
		rights               bool
		broker, want         string
	}{
		{name: "management", password: "p", tags: "management", rights: true},
		{name: "monitoring", password: "p", tags: "monitoring", rights: true},
		{name: "administrator", password: "p", tags: "administrator", rights: true},
		{name: "no tag", password: "p", rights: true, want: `401 Unauthorized: RabbitMQ's reason is "Not management user" (give the user the tag management or monitoring)`},
		{name: "no rights", password: "p", tags: "monitoring", want: `401 Unauthorized: RabbitMQ's reason is "User not authorised to access virtual host" (give the user rights there, by rabbitmqctl set_permissions)`},
		{name: "another password", password: "s3cret", tags: "monitoring", rights: true, want: `401 Unauthorized: RabbitMQ's reason is "Login failed" (are user and password right?)`},
		{name: "another vhost", password: "p", tags: "monitoring", rights: true, broker: gone.String(), want: `it knows no virtual host "no-such-vhost"`},
	} {
		root := testenv.URL(t, env.ManagementURL)
		root.User = url.UserPassword(env.Tagged(t, "p", tc.tags, tc.rights), tc.password)
		q := inspector(t, parsed.Broker(t, cmp.Or(tc.broker, env.URL)), root.String(), celery.InspectorOptions{})
		err := q.CheckManagement(deadline(t))
		switch {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)), err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		case tc.broker == "": // measurements have no error for it
			testenv.Becomes(t, tc.name+": unknown", tc.want != "", func() bool { return length(t, q, "queue", 0).Unknown })
		}
	}
}

// The default port of the management API would be above 65535. The error names the key to set.
func TestManagementPortBeyondTheLast(t *testing.T) {
	t.Parallel()
	q := inspector(t, parsed.Broker(t, "amqp://guest:s3cret@127.0.0.1:55536//"), "", celery.InspectorOptions{})
	err := q.CheckManagement(deadline(t))
	if err == nil || !strings.Contains(err.Error(), "(55536) + 10000: set rabbitmq.management_url") || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

// If a count is missing, the number of unacknowledged messages is unknown, not zero.
func TestMissingCountsAreUnknown(t *testing.T) {
	t.Parallel()
	env, ch := withQueue(t)
	fill(t, ch, "queue", 2)
	for body, unknown := range map[string]bool{
		`{"name": "queue", "state": "running"}`:                  true,
		`{"messages_ready": 2}`:                                  true,
		`{"messages_unacknowledged": 2}`:                         true,
		`{"messages_ready": 2, "messages_unacknowledged": null}`: true,
		`{"messages_ready": 2, "messages_unacknowledged": 7}`:    false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		q := inspector(t, parsed.Broker(t, env.URL), server.URL, celery.InspectorOptions{})
		want := celery.QueueLength{Exists: true, Ready: 2, Unacknowledged: 7}
		if unknown {
			want = celery.QueueLength{Exists: true, Ready: 2, Unknown: true} // the queue has no consumer
			if l := length(t, q, "queue", 3); l != want {
				t.Errorf("%s: %+v, want %+v", body, l, want)
			}
		} else if l := length(t, q, "queue", 0); l != want {
			t.Errorf("%s: %+v, want %+v", body, l, want)
		}
		_ = q.Close()
		server.Close()
	}
}

// A broker with disabled statistics returns responses without counts.
func TestDisabledStatisticsAreUnknown(t *testing.T) {
	t.Parallel()
	node := testenv.RabbitMQCluster(t, 1).Nodes[0]
	ch := testenv.Channel(t, node.URL)
	testenv.Declare(t, ch, "queue", nil)
	fill(t, ch, "queue", 5)
	if _, deliveries := hold(t, node.URL, "queue", 5, false); (<-deliveries).Body == nil {
		t.Fatal("no delivery")
	}
	q := inspector(t, parsed.Broker(t, node.URL), node.ManagementURL, celery.InspectorOptions{})
	testenv.Becomes(t, "the length is known", nil, func() error {
		if l := length(t, q, "queue", 0); l.Unknown || l.Unacknowledged != 5 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
	for _, disable := range []string{
		"application:set_env(rabbitmq_management, disable_management_stats, true)",
		"application:set_env(rabbitmq_management, disable_management_stats, false), application:set_env(rabbitmq_management_agent, disable_metrics_collector, true)",
	} {
		node.Ctl("eval", disable+".")
		if l := length(t, q, "queue", 0); !l.Unknown {
			t.Errorf("%s: %+v", strings.SplitN(disable, ",", 3)[1], l)
		}
	}
}
