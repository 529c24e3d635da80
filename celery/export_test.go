package celery

import (
	"maps"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Address is one node of a broker.
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

// Represent returns a JSON text as Celery's argsrepr shows it, and as Celery encodes it.
func Represent(text []byte) (repr, body string, err error) {
	var v values
	at, err := v.parse(text)
	if err != nil {
		return "", "", err
	}
	return string(v.appendRepr(nil, at)), string(v.appendJSON(nil, at)), nil
}

// EncodeAs returns a function that encodes all its messages with one encoder.
func EncodeAs(s SendSettings) func(*TaskMessage) (amqp.Publishing, error) {
	e, forms := newEncoder(16<<20, "reply-to"), newForms(s)
	return func(m *TaskMessage) (amqp.Publishing, error) { return e.encode(m, forms.of(m.Name)) }
}

// Encode returns a function that encodes all its messages with one encoder.
func Encode() func(*TaskMessage) error {
	encode := EncodeAs(SendSettings{})
	return func(m *TaskMessage) error {
		_, err := encode(m)
		return err
	}
}

// ManagementURL returns the default URL of the management API for a broker's first address.
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

// Suspect marks a queue as one that doesn't answer. The returned function reports whether the mark is still set.
func (p *Publisher) Suspect(queue string) (still func() bool) {
	p.suspects.Store(queue, true)
	return func() bool {
		_, suspect := p.suspects.Load(queue)
		return suspect
	}
}

// Retire makes a connected publisher open another connection for the next messages.
func (p *Publisher) Retire() { p.retire(p.current()) }

// Session identifies a publisher's current connection. It returns the number of messages that hold a slot of it, and how
// many of these are sent and unconfirmed.
func (p *Publisher) Session() (session any, slots, unanswered int) {
	s := p.current()
	return s, len(s.slots), int(s.unanswered.Load())
}

// Headers returns the headers of messages that one encoder has encoded.
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

// Figures returns QueueFigures as the management API would report them.
func Figures(kind string, ready, unacknowledged, prefetch int) QueueFigures {
	return QueueFigures{answered: true, known: true, Asked: time.Now(), stats: queueStats{Type: kind, Ready: &ready, Unacknowledged: &unacknowledged}, prefetch: prefetch}
}
