package celery_test

import (
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// A TLS broker is reached with its authority, a client certificate and a server name in the URL. Without any of these it
// isn't.
func TestTLS(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "queue", nil)
	ca := testenv.Authority(t)
	client := ca.Issue(t, "client.example.org")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, "broker.example.org").Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	})
	if err != nil {
		t.Fatal(err)
	}
	x := injectInto(t, listener, testenv.Host(t, env.URL))
	secure := strings.Replace(testenv.WithHost(t, env.URL, x.addr), "amqp://", "amqps://", 1)
	all := url.Values{
		"cacertfile": {testenv.File(t, "ca.pem", ca.PEM)}, "certfile": {testenv.File(t, "client.pem", client.PEM)},
		"keyfile": {testenv.File(t, "client.key", client.KeyPEM)}, "server_name_indication": {"broker.example.org"},
	}
	query := func(keys ...string) string {
		chosen := url.Values{}
		for _, k := range keys {
			chosen[k] = all[k]
		}
		return secure + "?" + chosen.Encode()
	}
	for _, c := range []struct {
		name, url string
		works     bool
	}{
		{"all in the URL", query("cacertfile", "certfile", "keyfile", "server_name_indication"), true},
		{"no check", query("certfile", "keyfile") + "&verify=verify_none", true},
		{"unknown authority", query("certfile", "keyfile", "server_name_indication"), false},
		{"other server name", query("cacertfile", "certfile", "keyfile"), false},
		{"no client certificate", query("cacertfile", "server_name_indication"), false},
		{"no file", secure + "?cacertfile=/nowhere", false},
	} {
		ctx := deadline(t)
		control := celery.NewControl(parsed.Broker(t, c.url), celery.ControlOptions{Timeout: time.Millisecond})
		if _, err := control.Ping(ctx, celery.Destination{}); (err == nil) != c.works {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.works {
			continue
		}
		p := publisher(t, parsed.Broker(t, c.url), celery.PublisherOptions{})
		if err := errors.Join(p.Publish(ctx, tasks("queue", 1))...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
