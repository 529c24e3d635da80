package celery

import (
	"maps"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Address is one node of a broker, for tests.
type Address struct {
	Host           string
	Port           int
	User, Password string
	VHost          string
}

func (b Broker) Addresses() []Address {
	var all []Address
	for _, n := range b.nodes {
		all = append(all, Address{n.host, n.port, n.user, n.password, n.vhost})
	}
	return all
}

// Represent gives a JSON text as Celery shows it and as it encodes it.
func Represent(text []byte) (repr, body string, err error) {
	var v values
	at, err := v.parse(text)
	if err != nil {
		return "", "", err
	}
	return string(v.appendRepr(nil, at)), string(v.appendJSON(nil, at)), nil
}

// EncodeAs gives a function that encodes messages with one encoder.
func EncodeAs(s SendSettings) func(*TaskMessage) (amqp.Publishing, error) {
	e, forms := newEncoder(16<<20, "reply-to"), newForms(s)
	return func(m *TaskMessage) (amqp.Publishing, error) { return e.encode(m, forms.of(m.Name)) }
}

// Encode gives a function that encodes messages with one encoder.
func Encode() func(*TaskMessage) error {
	encode := EncodeAs(SendSettings{})
	return func(m *TaskMessage) error {
		_, err := encode(m)
		return err
	}
}

// ManagementURL is where the management API of a broker's first address is
// looked for.
func (b Broker) ManagementURL() string {
	m := management{client: &http.Client{}}
	u, err := m.base(b.nodes[0])
	if err != nil {
		return err.Error()
	}
	return u.String()
}

var (
	OfQueue   = ofQueue
	IsMissing = isMissing
)

// Suspect has the publisher take a queue for one that doesn't answer, and returns whether
// it still does.
func (p *Publisher) Suspect(queue string) (still func() bool) {
	p.suspects.Store(queue, true)
	return func() bool {
		_, suspect := p.suspects.Load(queue)
		return suspect
	}
}

// Retire has a connected publisher take another connection for what it sends from now on.
func (p *Publisher) Retire() { p.retire(p.current()) }

// Session tells the connections of a publisher apart. It returns how many messages hold a slot
// of the present one, and how many of them the broker may have and has not answered for.
func (p *Publisher) Session() (session any, slots, unanswered int) {
	s := p.current()
	return s, len(s.slots), int(s.unanswered.Load())
}

// Headers returns the headers of messages that one encoder encodes.
func Headers(messages ...TaskMessage) ([]map[string]any, error) {
	encode := EncodeAs(SendSettings{})
	var all []map[string]any
	for i := range messages {
		p, err := encode(&messages[i])
		if err != nil {
			return nil, err
		}
		all = append(all, maps.Clone(p.Headers))
	}
	return all, nil
}

// Figures are what the management API would have said of a queue.
func Figures(ready, unacknowledged, prefetch int) QueueFigures {
	return QueueFigures{answered: true, known: true, Asked: time.Now(), stats: queueStats{Ready: &ready, Unacknowledged: &unacknowledged}, prefetch: prefetch}
}
