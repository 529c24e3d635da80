package celery

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/service"
)

// A Use is a set of operations of a program at the broker, with the rights that they need.
type Use struct {
	rights [3]string // patterns, in the order of rightNames
	probes []probe
}

// rightNames are RabbitMQ's names of rights, in the order in which set_permissions takes their patterns.
var rightNames = [3]string{"configure", "write", "read"}

// A probe checks for rights by a method that changes nothing: the broker checks rights first, and then refuses the
// method for another reason, or has nothing to do.
type probe struct {
	do    func(ch *amqp.Channel) error
	needs []need
}

// A need is a right on a queue or an exchange.
type need struct{ right, kind, name string }

func (n need) object() string {
	if n.name == defaultExchange {
		return "the default exchange (" + defaultExchange + ")"
	}
	return n.kind + " " + n.name
}

// defaultExchange is the name of the default exchange in RabbitMQ's rights.
const defaultExchange = "amq.default"

// ToSend is the use of a program that sends messages to queues, and creates missing ones. Without names, the queues
// are those whose names begin with "swh.".
func ToSend(queues []string, s SendSettings) Use {
	if len(queues) == 0 {
		queues = []string{"swh.check." + uuid.NewString()}
	}
	names := namePattern(queues)
	u := Use{rights: [3]string{"^" + names, `^(amq\.default)?(` + names + `.*)?$`, "^" + names}}
	u.probes = append(u.probes, publish(defaultExchange, ""))
	for _, queue := range queues {
		u.probes = append(u.probes, makeQueue(queue), makeExchange(queue), bindQueue(queue, queue))
	}
	exchanges := map[string]bool{}
	for _, r := range s.Routes {
		if r.Exchange != "" && !exchanges[r.Exchange] {
			exchanges[r.Exchange] = true
			u.rights[1] += "|^" + regexp.QuoteMeta(r.Exchange) + "$"
			u.probes = append(u.probes, publish(r.Exchange, r.Exchange))
		}
	}
	return u
}

// namePattern matches the names of queues: by the prefix up to "swh." if a name has that, else whole.
func namePattern(queues []string) string {
	var all []string
	for _, queue := range queues {
		pattern := regexp.QuoteMeta(queue) + "$"
		if prefix, _, ok := strings.Cut(":"+queue, ":swh."); ok {
			pattern = regexp.QuoteMeta(strings.TrimPrefix(prefix+":swh.", ":"))
		}
		all = append(all, pattern)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, "|") + ")"
}

// ToReadEvents is the use of a program that reads workers' events.
func ToReadEvents() Use {
	return Use{
		rights: [3]string{`^celeryev(\.listener)?$`, `^celeryev\.listener$`, `^celeryev(\.listener)?$`},
		probes: []probe{makeQueue(EventsQueue), makeExchange(EventsBinding.Exchange), bindQueue(EventsQueue, EventsBinding.Exchange), readQueue(EventsQueue)},
	}
}

// ToAskWorkers is the use of a program that calls workers by a Control.
func ToAskWorkers() Use {
	replies := uuid.NewString() + "." + replyExchange
	return Use{
		rights: [3]string{`^([^.]+\.)?(reply\.)?celery\.pidbox$`, `^([^.]+\.reply\.)?celery\.pidbox$`, `^([^.]+\.)?reply\.celery\.pidbox$`},
		probes: []probe{
			makeExchange(controlExchange), makeExchange(replyExchange), publish(controlExchange, controlExchange),
			makeQueue(replies), bindQueue(replies, replyExchange), readQueue(replies),
		},
	}
}

// makeQueue probes the right to create a queue, by an argument of a wrong type.
func makeQueue(queue string) probe {
	return probe{func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-expires": "never"})
		return err
	}, []need{{"configure", "queue", queue}}}
}

// makeExchange is makeQueue for an exchange.
func makeExchange(exchange string) probe {
	return probe{func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, amqp.Table{"alternate-exchange": int32(0)})
	}, []need{{"configure", "exchange", exchange}}}
}

// bindQueue probes the rights to bind a queue, by an unbind of a binding that does not exist.
func bindQueue(queue, exchange string) probe {
	return probe{func(ch *amqp.Channel) error {
		return ch.QueueUnbind(queue, uuid.NewString(), exchange, nil)
	}, []need{{"write", "queue", queue}, {"read", "exchange", exchange}}}
}

// readQueue probes the right to read a queue, by a consumer's argument of a wrong type.
func readQueue(queue string) probe {
	return probe{func(ch *amqp.Channel) error {
		_, err := ch.Consume(queue, "", false, false, false, false, amqp.Table{"x-priority": "none"})
		return err
	}, []need{{"read", "queue", queue}}}
}

// publish probes the right to publish, by an unbind from an exchange that does not exist.
func publish(name, exchange string) probe {
	return probe{func(ch *amqp.Channel) error {
		return ch.ExchangeUnbind(exchange, uuid.NewString(), "swh.check."+uuid.NewString(), false, nil)
	}, []need{{"write", "exchange", name}}}
}

// RightsError lists the rights that the broker's user lacks, and the statement by which an administrator grants all
// that its uses need.
type RightsError struct {
	User, Vhost string
	lacks       []need // nil: all rights
	rights      [3]string
}

func (e *RightsError) Error() string {
	lacking := "all rights in the virtual host " + e.Vhost
	if len(e.lacks) > 0 {
		lacking = "rights: " + e.byRight()
	}
	return fmt.Sprintf("its user %s lacks %s; an administrator of the broker gives it what it needs by: %s (in place of the rights that it has there)",
		e.User, lacking, e.Statement())
}

// Statement returns the command that grants the rights. It replaces the rights that the user has.
func (e *RightsError) Statement() string {
	words := []string{"rabbitmqctl set_permissions -p", service.ShellWord(e.Vhost), service.ShellWord(e.User)}
	for _, pattern := range e.rights {
		words = append(words, service.ShellWord(pattern))
	}
	return strings.Join(words, " ")
}

// maxNamed is how many objects are named for each right.
const maxNamed = 3

// byRight lists the rights with their objects.
func (e *RightsError) byRight() string {
	var parts []string
	for _, right := range rightNames {
		var objects []string
		for _, n := range e.lacks {
			if n.right == right && !slices.Contains(objects, n.object()) {
				objects = append(objects, n.object())
			}
		}
		if more := len(objects) - maxNamed; more > 0 {
			objects = append(objects[:maxNamed], fmt.Sprintf("%d more", more))
		}
		if len(objects) > 0 {
			parts = append(parts, right+" on "+strings.Join(objects, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// probesAtOnce is how many probes run at once, each on a channel of its own: there may be hundreds, and the round
// trip may be long.
const probesAtOnce = 16

// CheckRights returns a RightsError if the broker's user lacks a right that one of these uses needs. It makes one
// connection, and changes no queue, no exchange and no message. A context that ends is an error.
func CheckRights(ctx context.Context, b Broker, o ConnectionOptions, uses ...Use) error {
	e := &RightsError{}
	var probes []probe
	for i := range rightNames {
		var patterns []string
		for _, u := range uses {
			patterns = append(patterns, u.rights[i])
		}
		e.rights[i] = strings.Join(patterns, "|")
	}
	for _, u := range uses {
		probes = append(probes, u.probes...)
	}
	d := newDialer(b, o)
	conn, err := d.dial(ctx)
	if user, vhost, refused := refusedVhost(err); refused && len(uses) > 0 {
		e.User, e.Vhost = user, vhost
		return e
	}
	if err != nil {
		return err
	}
	defer conn.close()
	defer conn.killAfter(ctx)()
	e.User, e.Vhost = conn.node.user, conn.node.vhost
	type answer struct {
		lacks []need
		user  string
		err   error
	}
	answers := make([]answer, len(probes))
	each(len(probes), probesAtOnce, func(i int) {
		if ctx.Err() == nil {
			answers[i].lacks, answers[i].user, answers[i].err = probes[i].ask(conn)
		}
	})
	for _, a := range answers {
		if ctx.Err() != nil {
			a.err = context.Cause(ctx)
		}
		if a.err != nil {
			return fmt.Errorf("asking %s for rights: %w", conn.node, a.err)
		}
		if e.lacks = append(e.lacks, a.lacks...); a.user != "" { // as the broker names it, also for a certificate
			e.User = a.user
		}
	}
	if len(e.lacks) > 0 {
		return e
	}
	return nil
}

// ask returns the refused rights, and the user.
func (p probe) ask(conn *connection) (lacks []need, user string, err error) {
	err = onChannel(conn.Connection, p.do)
	refusal, ok := errors.AsType[*amqp.Error](err)
	switch {
	case conn.IsClosed():
		return nil, "", err
	case err != nil && !ok:
		return nil, "", err
	case ok && refusal.Code == amqp.AccessRefused:
		for _, n := range p.needs {
			if strings.Contains(refusal.Reason, fmt.Sprintf("access to %s '%.150s", n.kind, n.name)) { // a long reason is cut
				return []need{n}, toUser(refusal.Reason), nil
			}
		}
	}
	return nil, "", nil
}

var (
	ofUser    = regexp.MustCompile(`refused for user '(.*)'`)
	ofNoVhost = regexp.MustCompile(`access to vhost '(.*)' refused for user '(.*)'`)
)

// toUser returns the name of the refused user; "" if the reason is cut before it.
func toUser(reason string) string {
	if m := ofUser.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	return ""
}

// refusedVhost reports whether a connection was refused because the user has no rights in its virtual host.
func refusedVhost(err error) (user, vhost string, refused bool) {
	e, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return "", "", false
	}
	m := ofNoVhost.FindStringSubmatch(e.Reason)
	if m == nil {
		return "", "", false
	}
	return m[2], m[1], true
}
