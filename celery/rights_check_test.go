package celery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

var quotedWords = regexp.MustCompile(`'([^']*)'`)

// With the rights of docs/how-to/secure.md the check finds nothing. Of rights that are revoked, it names exactly these,
// with the statement that grants them. It changes no queue, exchange, binding or message, on an empty virtual host and
// on one in use.
func TestCheckRights(t *testing.T) {
	t.Parallel()
	const random = `[0-9a-f-]{36}\.reply\.celery\.pidbox`
	route, err := celery.TaskPattern("routed")
	if err != nil {
		t.Fatal(err)
	}
	routes := celery.SendSettings{Routes: []celery.Route{{Task: route, Form: celery.Form{Exchange: "other.exchange", RoutingKey: "x"}}}}
	for name, tc := range map[string]struct {
		use     celery.Use
		rights  [3]string
		without [3]string // the check's result without one of the rights
	}{
		"sends": {
			celery.ToSend([]string{"swh.test", "save_code_now:swh.test", "mine"}, celery.SendSettings{}),
			[3]string{`^(mine$|save_code_now:swh\.|swh\.)`, `^(amq\.default)?((mine$|save_code_now:swh\.|swh\.).*)?$`, `^(mine$|save_code_now:swh\.|swh\.)`},
			[3]string{
				"configure on queue swh.test, exchange swh.test, queue save_code_now:swh.test, 3 more",
				`write on the default exchange \(amq.default\), queue swh.test, queue save_code_now:swh.test, 1 more`,
				"read on exchange swh.test, exchange save_code_now:swh.test, exchange mine",
			},
		},
		"sends anywhere": {
			celery.ToSend(nil, routes), [3]string{`^swh\.check\.`, `^(amq\.default)?(swh\.check\..*)?$|^other\.exchange$`, `^swh\.check\.`},
			[3]string{`configure on queue swh.check.[^ ]*, exchange swh.check.[^ ]*`, `write on the default exchange \(amq.default\), queue swh.check.[^ ]*, exchange other.exchange`, `read on exchange swh.check.[^ ]*`},
		},
		"reads events": {
			celery.ToReadEvents(), [3]string{`^celeryev(\.listener)?$`, `^celeryev\.listener$`, `^celeryev(\.listener)?$`},
			[3]string{"configure on queue celeryev.listener, exchange celeryev", "write on queue celeryev.listener", "read on exchange celeryev, queue celeryev.listener"},
		},
		"asks workers": {
			celery.ToAskWorkers(), [3]string{`^([^.]+\.)?(reply\.)?celery\.pidbox$`, `^([^.]+\.reply\.)?celery\.pidbox$`, `^([^.]+\.)?reply\.celery\.pidbox$`},
			[3]string{"configure on exchange celery.pidbox, exchange reply.celery.pidbox, queue " + random, "write on exchange celery.pidbox, queue " + random, "read on exchange reply.celery.pidbox, queue " + random},
		},
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in use: ", used), func(t *testing.T) {
				t.Parallel()
				env := testenv.RabbitMQ(t)
				queues := []string{"swh.test", "save_code_now:swh.test", "mine", "celeryev.listener"}
				ch := testenv.Channel(t, env.URL)
				if used {
					for _, queue := range queues {
						arguments := amqp.Table{}
						if queue == "mine" {
							arguments[amqp.QueueTypeArg] = "quorum"
						}
						testenv.Declare(t, ch, queue, arguments)
						if err := errors.Join(ch.ExchangeDeclare(queue, "direct", true, false, false, false, nil), ch.QueueBind(queue, queue, queue, false, nil)); err != nil {
							t.Fatal(err)
						}
						fill(t, ch, queue, 100)
					}
					if err := errors.Join(ch.ExchangeDeclare("celeryev", "topic", true, false, false, false, nil), ch.QueueBind("celeryev.listener", "#", "celeryev", false, nil)); err != nil {
						t.Fatal(err)
					}
				}
				definitions := func() string {
					return manage(t, env, http.MethodGet, "api/definitions/"+testenv.URL(t, env.URL).Path[1:], "")
				}
				before := definitions()
				user := env.User(t, "s3cret")
				u := testenv.URL(t, env.URL)
				u.User = url.UserPassword(user, "s3cret")
				check := func() error {
					return celery.CheckRights(deadline(t), parsed.Broker(t, u.String()), celery.ConnectionOptions{}, tc.use)
				}
				for without := range 4 { // in the last round, none is revoked
					rights := tc.rights
					if without < 3 {
						rights[without] = "^$"
					}
					env.Permit(t, user, rights[0], rights[1], rights[2])
					err := check()
					if without == 3 {
						if err != nil {
							t.Errorf("with all: %v", err)
						}
						continue
					}
					lacks, ok := errors.AsType[*celery.RightsError](err)
					if !ok {
						t.Fatalf("without %d: %v", without, err)
					}
					want := regexp.MustCompile("^its user " + user + " lacks rights: " + tc.without[without] + "; an administrator")
					if text := err.Error(); !want.MatchString(text) || !strings.Contains(text, lacks.Statement()) || strings.Contains(text, "s3cret") {
						t.Errorf("without %d: %s, want %s", without, text, want)
					}
					words := quotedWords.FindAllStringSubmatch(lacks.Statement(), -1)
					if words[0][1] != u.Path[1:] || words[1][1] != user {
						t.Fatal(lacks.Statement())
					}
					env.Permit(t, user, words[2][1], words[3][1], words[4][1])
					if err := check(); err != nil {
						t.Errorf("granted, without %d before: %v", without, err)
					}
				}
				if after := definitions(); after != before {
					t.Errorf("%s\nafterwards, and before\n%s", after, before)
				}
				for _, queue := range queues {
					if used && testenv.Ready(t, ch, queue) != 100 {
						t.Errorf("messages of %s are gone", queue)
					}
				}
			})
		}
	}
}

// The broker refuses a user without rights in the virtual host. The check's statement grants all that is needed. If the
// broker is silent, the check returns an error in time.
func TestCheckRightsWithoutAny(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	user := env.Tagged(t, "s3cret", "", false)
	u := testenv.URL(t, env.URL)
	u.User = url.UserPassword(user, "s3cret")
	check := func() error {
		return celery.CheckRights(deadline(t), parsed.Broker(t, u.String()), celery.ConnectionOptions{}, celery.ToReadEvents(), celery.ToAskWorkers())
	}
	err := check()
	lacks, ok := errors.AsType[*celery.RightsError](err)
	if !ok || !strings.Contains(err.Error(), "lacks all rights in the virtual host "+u.Path[1:]) || strings.Contains(err.Error(), "s3cret") {
		t.Fatal(err)
	}
	words := quotedWords.FindAllStringSubmatch(lacks.Statement(), -1)
	env.Permit(t, user, words[2][1], words[3][1], words[4][1])
	if err := check(); err != nil {
		t.Error(err)
	}

	proxy := testenv.BrokerProxy(t, testenv.Host(t, env.URL))
	silent := parsed.Broker(t, testenv.WithHost(t, env.URL, proxy.Addr))
	proxy.Silence(true)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := celery.CheckRights(ctx, silent, celery.ConnectionOptions{}, celery.ToReadEvents()); err == nil || time.Since(began) > patience {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// The check works with a broker in an alarm, which accepts no messages.
func TestCheckRightsInAnAlarm(t *testing.T) {
	t.Parallel()
	node := testenv.RabbitMQCluster(t, 1).Nodes[0]
	node.Ctl("set_vm_memory_high_watermark", "absolute", "1")
	uses := []celery.Use{celery.ToSend([]string{"swh.test"}, celery.SendSettings{}), celery.ToReadEvents(), celery.ToAskWorkers()}
	if err := celery.CheckRights(deadline(t), parsed.Broker(t, node.URL), celery.ConnectionOptions{}, uses...); err != nil {
		t.Error(err)
	}
	node.Ctl("set_permissions", "guest", `^swh\.|celeryev|pidbox$`, `^swh\.|celeryev|pidbox$`, `.*`)
	err := celery.CheckRights(deadline(t), parsed.Broker(t, node.URL), celery.ConnectionOptions{}, uses...)
	if err == nil || !strings.Contains(err.Error(), "rights: write on the default exchange (amq.default); an administrator") {
		t.Error(err)
	}
}
