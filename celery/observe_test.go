package celery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// Observing many queues takes about the time of one. With a silent broker the time is bounded, whatever the number of
// queues. Once the broker answers, observations succeed.
func TestObservingManyQueuesIsBounded(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	queues := make([]string, 40)
	for i := range queues {
		queues[i] = fmt.Sprintf("q%d", i)
		testenv.Declare(t, ch, queues[i], nil)
	}
	way, through := proxied(t, env.URL)
	const each = time.Second
	q := inspector(t, parsed.Broker(t, through+"?heartbeat=600"), env.ManagementURL, celery.InspectorOptions{QueueTimeout: each})
	observe := func() (answered int, took time.Duration) {
		t.Helper()
		began := time.Now()
		observed := q.Observe(deadline(t), time.Now, queues, false)
		for _, queue := range queues {
			o, ok := observed[queue]
			if !ok {
				t.Errorf("%s is not observed", queue)
			}
			if o.Err == nil && o.Exists {
				answered++
			}
		}
		return answered, time.Since(began)
	}
	if n, took := observe(); n != len(queues) {
		t.Fatalf("%d of %d queues are observed, in %s", n, len(queues), took)
	}
	way.Silence(true)
	if n, took := observe(); n != 0 || took > 4*each {
		t.Errorf("%d queues of a silent broker are observed, in %s", n, took)
	}
	way.Restore()
	testenv.Becomes(t, "queues that are observed again", len(queues), func() int { n, _ := observe(); return n })
}

// Queues on a paused node don't delay queues on another node. All are observed at once, within one timeout.
func TestObservingQueuesOfAPausedNode(t *testing.T) {
	t.Parallel()
	cluster := testenv.RabbitMQCluster(t, 2)
	var healthy, paused, queues []string
	for i := range 20 {
		healthy, paused = append(healthy, fmt.Sprintf("healthy%d", i)), append(paused, fmt.Sprintf("paused%d", i))
		cluster.Nodes[0].Declare(healthy[i], nil)
		cluster.Nodes[1].Declare(paused[i], nil)
		queues = append(queues, paused[i], healthy[i])
	}
	address := cluster.Nodes[0].URL
	q := inspector(t, parsed.Broker(t, address), "", celery.InspectorOptions{QueueTimeout: time.Second})
	cluster.Nodes[1].Pause()
	defer cluster.Nodes[1].Resume()
	for round := range 2 {
		began := time.Now()
		observed := q.Observe(deadline(t), time.Now, queues, false)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("round %d: %d queues took %s", round, len(queues), took)
		}
		for _, queue := range healthy {
			if o := observed[queue]; o.Err != nil || !o.Exists {
				t.Errorf("round %d: %s: %+v", round, queue, o)
			}
		}
		for _, queue := range paused {
			if o := observed[queue]; !celery.IsOfQueue(o.Err) {
				t.Errorf("round %d: %s: %+v", round, queue, o)
			}
		}
	}
}

// With a slow management API, several queues are requested at once.
func TestObservingWithASlowManagementAPI(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	ch := testenv.Channel(t, env.URL)
	queues := make([]string, 40)
	for i := range queues {
		queues[i] = fmt.Sprintf("q%d", i)
		testenv.Declare(t, ch, queues[i], nil)
	}
	const slow = 300 * time.Millisecond
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(slow)
		_, _ = fmt.Fprint(w, `{"messages_ready": 1, "messages_unacknowledged": 2, "consumer_details": [{"ack_required": true}]}`)
	}))
	defer api.Close()
	q := inspector(t, parsed.Broker(t, env.URL), api.URL, celery.InspectorOptions{QueueTimeout: 5 * time.Second})
	began := time.Now()
	observed := q.Observe(deadline(t), time.Now, queues, true)
	if took := time.Since(began); took > time.Duration(len(queues))*slow/2 {
		t.Errorf("%d queues took %s, with a management API that takes %s for each", len(queues), took, slow)
	}
	for _, queue := range queues {
		o := observed[queue]
		if l, err := o.Length(0); err != nil || l.Unknown || l.Unacknowledged != 3 || l.Ready != 0 || o.Since().After(o.Asked) {
			t.Errorf("%s: %+v, %v", queue, l, err)
		}
	}
}
