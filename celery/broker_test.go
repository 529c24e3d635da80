package celery_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv/seed"
)

// The parser takes from each broker URL the same values as Celery.
func TestBrokerURLsMeanWhatCelerySays(t *testing.T) {
	t.Parallel()
	python := startPeer(t, "memory://")
	urls := []string{
		"amqp://", "amqp://h", "amqp://h/", "amqp://h//", "amqp://h/%2f", "amqp://h/%2F", "amqp://h/v", "amqp://h//v", "amqp://h/v/w",
		"amqp://h/%20%c3%a9%25", "amqp://h:5673", "amqp://h:5673//", "amqp://u@h//", "amqp://u:p@h//", "amqp://u:@h//",
		"amqp://:p@h//", "amqp://u%40x:p%3a%2F%3b%40%25@h/v", "amqp://u:p:q@h", "amqp://u:p@q@h", "amqp://guest@localhost//",
		"amqp://[::1]:5673/v", "amqp://[::1]", "pyamqp://u:p@h/v", "amqps://h//", "amqps://h:5673/", "amqp://u:%zz@h/%", "amqp://H/V",
		"amqp://u:p@h1:1/v;amqp://u:p@h2:2/w", "amqp://u:p@h1:1/v;amqp://h2", "amqp://h1;amqp://h2:7/v;amqp://h3",
		"amqp://u:p@h1:1/v;h2", "amqps://u:p@h1/v;h2;h3", "amqp://u:p@h1:1/v;amqp://x:y@h2:2/w;h3",
		"amqp://10.0.0.1:5672/?heartbeat=30",
	}
	g := generator{seed.Rand(t)}
	for range 500 {
		var u strings.Builder
		u.WriteString(g.pick("amqp://", "pyamqp://"))
		part := func() string {
			var s strings.Builder
			for range g.IntN(5) {
				s.WriteString(g.pick("a", "Z", "0", "-", "_", ".", "~", "%40", "%2f", "%3A", "%25", "%c3%a9", "+", "!", "%20", "%"))
			}
			return s.String()
		}
		switch g.IntN(3) {
		case 0:
			u.WriteString(part() + "@")
		case 1:
			u.WriteString(part() + ":" + part() + "@")
		}
		u.WriteString(g.pick("h", "host.example.org", "127.0.0.1", "", "[::1]"))
		u.WriteString(g.pick("", ":1", ":65535", ":5672"))
		u.WriteString(g.pick("", "/", "//", "/"+part(), "/"+part()+"/"+part()))
		urls = append(urls, u.String())
	}
	for _, url := range urls {
		var want []celery.Address
		if e := python.ask(map[string]any{"operation": "addresses", "urls": url}, &want); e != "" {
			t.Errorf("%s: Celery says %s", url, e)
			continue
		}
		b, err := celery.ParseBroker(url, false, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		for i := range want {
			want[i].Host = strings.ToLower(want[i].Host)
		}
		got := b.Addresses()
		for i := range got {
			got[i].Host = strings.ToLower(got[i].Host)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Celery +ours):\n%s", url, diff)
		}
	}
}

// A further address without scheme is reached with the TLS and the credentials of the first.
func TestAddressWithoutScheme(t *testing.T) {
	t.Parallel()
	b, err := celery.ParseBroker("amqps://u:p@h1/v;h2", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if plain := b.Plain(); plain != nil {
		t.Errorf("%v would be sent credentials without TLS", plain)
	}
	if got, want := b.String(), "amqps://u:***@h1:5671/v;amqps://u:***@h2:5671/v"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Errors and printed brokers never contain the password of the URL.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"amqp://u:secret@h/v", "amqps://u:secret@h1;amqp://x:secret@h2", "redis://u:secret@h", "secret://x", "amqp://u:secret@h:port/",
		"amqp://u:secret@h:0", "amqp://u:secret@h:65536", "amqp://u:sec/secret@h", "amqp://u:secret@[::1", "amqp://u:secret@h?x=%zz;",
		"amqp://u:secret@h?unknown=secret", "amqp://u:secret@h?heartbeat=secret", "amqp://u:secret@h?auth_mechanism=secret",
		"amqp://u:secret@h?certfile=x", ";;", "", "amqp://u:secret@h?connect_timeout=-1",
	} {
		b, err := celery.ParseBroker(url, false, nil)
		for _, shown := range []string{fmt.Sprint(err), b.String(), fmt.Sprint(b), fmt.Sprintf("%#v %+v %q", b, b, b)} {
			if strings.Contains(shown, "secret") {
				t.Errorf("%s shows as %s", url, shown)
			}
		}
	}
	for _, url := range []string{"", ";", "http://h", "amqp://h:x", "amqp://h?nonsense=1"} {
		if _, err := celery.ParseBroker(url, false, nil); err == nil {
			t.Errorf("%q is taken for a broker URL", url)
		}
	}
}
