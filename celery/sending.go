package celery

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// SendSettings configures how task messages are sent and queues are declared, by Celery's settings. The zero value is
// Celery's defaults.
type SendSettings struct {
	Form
	Routes []Route // the first route that matches a task's name is used

	Queues      []string // of task_queues; never created with MissingType
	MissingType string   // x-queue-type of other queues that are declared; "" for none
	MaxPriority int      // x-max-priority of queues that are declared; 0 for none
}

// Form is the form of a message. In a route, a zero field means that of SendSettings; there it means Celery's default.
type Form struct {
	Serializer   string // MsgpackSerializer or JSONSerializer, the default
	Compression  string // one of Compressions; "" for none
	DeliveryMode uint8  // amqp.Transient or amqp.Persistent, the default
	Priority     uint8

	// Exchange and RoutingKey are the destination. Either both are set, or neither, and the queue itself is the
	// destination.
	Exchange, RoutingKey string
}

// The serializers that workers of the Python scheduler accept.
const (
	JSONSerializer    = "json"
	MsgpackSerializer = "msgpack"
)

// Route is a setting of task_routes for the tasks whose names Task matches.
type Route struct {
	Task  *regexp.Regexp
	Queue string // "" for the default queue
	Form
}

// TaskPattern compiles a name of task_routes: a name with a * is a pattern of Python's fnmatch.
func TaskPattern(name string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	if !strings.Contains(name, "*") {
		return regexp.Compile(b.String() + regexp.QuoteMeta(name) + `\z`)
	}
	for rest := name; rest != ""; {
		_, size := utf8.DecodeRuneInString(rest)
		c, end := rest[:size], -1
		if c == "[" && len(rest) > 2 {
			// The first character of a set may be a ].
			first := 1
			if rest[1] == '!' {
				first = 2
			}
			if i := strings.IndexByte(rest[first+1:], ']'); i >= 0 {
				end = first + 1 + i
			}
		}
		switch {
		case c == "*":
			b.WriteString(`.*`)
		case c == "?":
			b.WriteString(`.`)
		case end > 0:
			set, not := strings.CutPrefix(rest[1:end], "!")
			if b.WriteByte('['); not {
				b.WriteByte('^')
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(set) + "]")
			size = end + 1
		default:
			b.WriteString(regexp.QuoteMeta(c))
		}
		rest = rest[size:]
	}
	return regexp.Compile(b.String() + `\z`)
}

// Route returns the route of a task; nil if none matches.
func (s *SendSettings) Route(task string) *Route {
	for i := range s.Routes {
		if s.Routes[i].Task.MatchString(task) {
			return &s.Routes[i]
		}
	}
	return nil
}

// arguments returns the arguments of a queue's declaration.
func (s *SendSettings) arguments(queue string) amqp.Table {
	arguments := amqp.Table{}
	if s.MissingType != "" && !slices.Contains(s.Queues, queue) {
		arguments[amqp.QueueTypeArg] = s.MissingType
	}
	if s.MaxPriority > 0 {
		arguments["x-max-priority"] = int32(s.MaxPriority)
	}
	return arguments
}

// forms finds the form of each task's messages.
type forms struct {
	sending SendSettings
	plain   Form     // of tasks without a route
	routed  sync.Map // *Form, by the task's name; used only if there are routes
}

func newForms(s SendSettings) *forms {
	f := &forms{sending: s, plain: s.Form}
	f.plain.Serializer = cmp.Or(s.Serializer, JSONSerializer)
	f.plain.DeliveryMode = cmp.Or(s.DeliveryMode, amqp.Persistent)
	return f
}

func (f *forms) of(task string) *Form {
	if len(f.sending.Routes) == 0 {
		return &f.plain
	}
	if form, ok := f.routed.Load(task); ok {
		return form.(*Form)
	}
	form := f.plain
	if r := f.sending.Route(task); r != nil {
		form = r.Form
		form.Serializer = cmp.Or(form.Serializer, f.plain.Serializer)
		form.Compression = cmp.Or(form.Compression, f.plain.Compression)
		form.DeliveryMode = cmp.Or(form.DeliveryMode, f.plain.DeliveryMode)
	}
	f.routed.Store(task, &form)
	return &form
}

// findExchange returns an error if a route's exchange doesn't exist: RabbitMQ would close the channel, with the
// messages of all other calls. It checks once in a session.
func (c *publishCall) findExchange(s *publishSession, m *TaskMessage, exchange string) error {
	if _, found := s.exchanges.Load(exchange); found {
		return nil
	}
	err := c.p.questions.ask(c.p.ctx, m.Queue, func() error {
		return onChannel(s.conn.Connection, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
		})
	})
	switch {
	case err == nil:
		s.exchanges.Store(exchange, true)
	case isMissing(err):
		return &ReturnedError{Queue: m.Queue, Code: amqp.NotFound, Reason: fmt.Sprintf("there is no exchange %q", exchange)}
	case !IsOfQueue(err):
		return failure(ErrNotSent, m, err)
	}
	return err
}
