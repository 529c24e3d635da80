package celery_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// Users with only the rights of docs/how-to/secure.md can do the work of their daemons. Without one of these rights they
// can't.
func TestRightsAtTheBroker(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/how-to/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		configure, write, read string
		work                   func(t *testing.T, b celery.Broker) error
	}{
		"those that send": {`^swh\.`, `^(amq\.default)?(swh\..*)?$`, `^swh\.`, func(t *testing.T, b celery.Broker) error {
			p := publisher(t, b, celery.PublisherOptions{})
			if err := p.DeclareQueue(deadline(t), "swh.test"); err != nil {
				return err
			}
			return p.Publish(deadline(t), tasks("swh.test", 1))[0]
		}},
		"`start-listener`": {`^celeryev(\.listener)?$`, `^celeryev\.listener$`, `^celeryev(\.listener)?$`, func(t *testing.T, b celery.Broker) error {
			met, lost := make(chan struct{}, 100), make(chan error, 100)
			runConsumer(t, b, celery.ConsumerOptions{
				Queue: celery.EventsQueue, Bindings: []celery.Binding{celery.EventsBinding},
				OnReading: func() { met <- struct{}{} }, OnLost: func(err error) { lost <- err },
			}, make(chan celery.Delivery))
			select {
			case <-met:
				return nil
			case err := <-lost:
				return err
			case <-time.After(patience):
				return errors.New("the queue is not read")
			}
		}},
		"what asks workers": {`^([^.]+\.)?(reply\.)?celery\.pidbox$`, `^([^.]+\.reply\.)?celery\.pidbox$`, `^([^.]+\.)?reply\.celery\.pidbox$`, func(t *testing.T, b celery.Broker) error {
			_, err := celery.NewControl(b, celery.ControlOptions{Timeout: 100 * time.Millisecond}).Ping(deadline(t), celery.Destination{})
			return err
		}},
	} {
		t.Run(strings.Trim(name, "`"), func(t *testing.T) {
			t.Parallel()
			if row := fmt.Sprintf("| %s | `%s` | `%s` | `%s` |", name, tc.configure, tc.write, tc.read); !strings.Contains(string(docs), row) {
				t.Errorf("docs/how-to/secure.md has no %s", row)
			}
			for _, without := range []string{"", "configure", "write", "read"} {
				env := testenv.RabbitMQ(t)
				user := env.User(t, "p")
				u := testenv.URL(t, env.URL)
				patterns := map[string]string{"configure": tc.configure, "write": tc.write, "read": tc.read}
				if without != "" && patterns[without] == "^$" {
					continue
				}
				if without != "" {
					patterns[without] = "^$"
				}
				manage(t, env, http.MethodPut, "api/permissions/"+u.Path[1:]+"/"+user,
					fmt.Sprintf(`{"configure": %q, "write": %q, "read": %q}`, patterns["configure"], patterns["write"], patterns["read"]))
				u.User = url.UserPassword(user, "p")
				err := tc.work(t, parsed.Broker(t, u.String()))
				if without == "" && err != nil {
					t.Errorf("with all: %v", err)
				}
				if without != "" && (err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") || !strings.Contains(err.Error(), "config check --for DAEMON")) {
					t.Errorf("without %s: %v", without, err)
				}
			}
		})
	}
}
