package celery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// The exchanges of Celery's remote control.
const (
	controlExchange = "celery.pidbox"
	replyExchange   = "reply.celery.pidbox"
)

// ControlOptions may be left zero.
type ControlOptions struct {
	ConnectionOptions

	// Timeout is how long Control collects replies. Default: 1 s, as in Celery.
	Timeout time.Duration
}

// Control sends queries and commands to running workers. Each request has a connection of its own. It is safe for
// concurrent use.
type Control struct {
	broker  Broker
	options ControlOptions
}

// NewControl makes a remote control.
func NewControl(b Broker, o ControlOptions) *Control {
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	return &Control{broker: b, options: o}
}

// Destination chooses workers by their node names; its zero value means all.
type Destination struct {
	Nodes   []string // exactly these, if there are any
	Pattern string   // else those that match this glob
}

// ParseDestination reads a glob pattern if there is a "*" in it, else a list
// of node names joined by ",". Empty means all workers.
func ParseDestination(s string) Destination {
	switch {
	case s == "":
		return Destination{}
	case strings.Contains(s, "*"):
		return Destination{Pattern: s}
	default:
		return Destination{Nodes: strings.Split(s, ",")}
	}
}

// Reply is the answer of one worker.
type Reply struct {
	Node  string
	Value json.RawMessage
	After time.Duration // between request and reply
}

// ReplyError reports that a worker could not execute a command.
type ReplyError struct{ Node, Message string }

func (e *ReplyError) Error() string { return fmt.Sprintf("worker %s: %s", e.Node, e.Message) }

// Call sends a command and collects the replies, in the order in which they come, until all named nodes have
// replied, or else until the time-out. No reply is no error. Unreadable replies are left out, and reported as an
// error beside the other replies.
func (c *Control) Call(ctx context.Context, to Destination, method string, arguments map[string]any) ([]Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := newDialer(c.broker, c.options.ConnectionOptions)
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("remote control %q: %w", method, err)
	}
	defer conn.close()
	defer conn.killAfter(ctx)()
	replies, err := c.call(ctx, conn, to, method, arguments)
	if err != nil {
		return replies, fmt.Errorf("remote control %q: %w", method, errors.Join(explained(err), ctx.Err()))
	}
	return replies, nil
}

func (c *Control) call(ctx context.Context, conn *connection, to Destination, method string, arguments map[string]any) ([]Reply, error) {
	ticket, address := uuid.NewString(), uuid.NewString()
	ch, deliveries, err := listen(conn, address)
	if err != nil {
		return nil, err
	}
	body, err := request(to, method, arguments, ticket, address)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	err = ch.PublishWithContext(ctx, controlExchange, "", false, false, amqp.Publishing{
		ContentType:     contentTypeJSON,
		ContentEncoding: "utf-8",
		DeliveryMode:    amqp.Persistent,
		Headers: amqp.Table{
			"clock":   int64(1),
			"expires": float64(sent.Add(c.options.Timeout).UnixMicro()) / 1e6,
		},
		Body: body,
	})
	if err != nil {
		return nil, err
	}
	return gather(ctx, deliveries, ticket, len(to.Nodes), sent, c.options.Timeout)
}

// listen makes a queue for replies, which is deleted with the connection.
func listen(conn *connection, address string) (*amqp.Channel, <-chan amqp.Delivery, error) {
	for name, kind := range map[string]string{controlExchange: amqp.ExchangeFanout, replyExchange: amqp.ExchangeDirect} {
		err := onChannel(conn.Connection, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(name, kind, false, false, false, false, nil)
		})
		if err != nil && !hasCode(err, amqp.PreconditionFailed) { // an exchange with other properties is usable
			return nil, nil, err
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	queue := address + "." + replyExchange
	if _, err := ch.QueueDeclare(queue, false, true, true, false, amqp.Table{"x-expires": int32(10_000)}); err != nil {
		return nil, nil, err
	}
	if err := ch.QueueBind(queue, address, replyExchange, false, nil); err != nil {
		return nil, nil, err
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	return ch, deliveries, err
}

// request returns the body of a command, as kombu's pidbox has it.
func request(to Destination, method string, arguments map[string]any, ticket, address string) ([]byte, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	r := map[string]any{
		"method": method, "arguments": arguments, "destination": to.Nodes, "pattern": nil, "matcher": nil,
		"ticket": ticket, "reply_to": map[string]string{"exchange": replyExchange, "routing_key": address},
	}
	if to.Pattern != "" {
		r["pattern"], r["matcher"] = to.Pattern, "glob"
	}
	return json.Marshal(r)
}

func gather(ctx context.Context, deliveries <-chan amqp.Delivery, ticket string, expected int, sent time.Time, timeout time.Duration) ([]Reply, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var replies []Reply
	var unreadable unreadableReplies
	for expected == 0 || len(replies)+unreadable.n < expected {
		select {
		case <-ctx.Done():
			return replies, context.Cause(ctx)
		case <-timer.C:
			return replies, unreadable.error()
		case d, ok := <-deliveries:
			if !ok {
				return replies, errors.Join(errors.New("the connection was lost"), unreadable.error())
			}
			if d.Headers["ticket"] != ticket {
				continue
			}
			got, err := decodeReplies(d.Body, d.ContentType)
			if err != nil {
				unreadable.add(err)
				continue
			}
			for i := range got {
				got[i].After = time.Since(sent)
			}
			replies = append(replies, got...)
		}
	}
	return replies, unreadable.error()
}

// unreadableReplies counts replies that can't be read. It keeps the first error, as the senders are unknown.
type unreadableReplies struct {
	n     int
	first error
}

func (u *unreadableReplies) add(err error) {
	if u.n++; u.n == 1 {
		u.first = err
	}
}

func (u *unreadableReplies) error() error {
	if u.n > 1 {
		return fmt.Errorf("%w (and %d more)", u.first, u.n-1)
	}
	return u.first
}

// decodeReplies reads the answer of a worker: an object with one key, the worker's name.
func decodeReplies(body []byte, contentType string) ([]Reply, error) {
	if contentType == contentTypeMsgpack {
		var err error
		if body, err = msgpackToJSON(body, "null"); err != nil {
			return nil, fmt.Errorf("reading a reply: %w", err)
		}
	}
	plain, err := validJSON(body, "null")
	s := scanner{src: plain}
	if s.separators(); err == nil && !s.at('{') {
		err = ErrNoObject
	}
	if err != nil {
		return nil, fmt.Errorf("reading a reply: %w", err)
	}
	fields := s.object(make(map[string]json.RawMessage))
	if s.err != nil {
		return nil, fmt.Errorf("reading a reply: %w", s.err)
	}
	var replies []Reply
	for _, node := range slices.Sorted(maps.Keys(fields)) {
		replies = append(replies, Reply{Node: node, Value: fields[node]})
	}
	return replies, nil
}

// Decode reads a reply's value. The error is a *ReplyError if the worker refused.
func (r Reply) Decode(into any) error {
	var refusal struct{ Error *string }
	if json.Unmarshal(r.Value, &refusal) == nil && refusal.Error != nil {
		return &ReplyError{Node: r.Node, Message: *refusal.Error}
	}
	if err := json.Unmarshal(r.Value, into); err != nil {
		return fmt.Errorf("worker %s: reading its reply: %w", r.Node, err)
	}
	return nil
}

// inspect calls a command and decodes each reply. Replies that can't be read
// are left out and their errors joined.
func inspect[T any](ctx context.Context, c *Control, to Destination, method string, arguments map[string]any) (map[string]T, error) {
	replies, err := c.Call(ctx, to, method, arguments)
	errs := []error{err}
	values := map[string]T{}
	for _, r := range replies {
		var value T
		if err := r.Decode(&value); err != nil {
			errs = append(errs, err)
			continue
		}
		values[r.Node] = value
	}
	return values, errors.Join(errs...)
}

// Ping returns the replies of the running workers.
func (c *Control) Ping(ctx context.Context, to Destination) ([]Reply, error) {
	return c.Call(ctx, to, "ping", nil)
}

// TaskInfo is a task that a worker has received.
type TaskInfo struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Args         json.RawMessage `json:"args"`
	Kwargs       json.RawMessage `json:"kwargs"`
	Hostname     string          `json:"hostname"`
	TimeStart    *float64        `json:"time_start"` // seconds since 1970 by the worker's clock; nil if not started
	Acknowledged bool            `json:"acknowledged"`
	WorkerPID    *int64          `json:"worker_pid"`
	DeliveryInfo struct {
		Exchange    string `json:"exchange"`
		RoutingKey  string `json:"routing_key"`
		Priority    *int64 `json:"priority"`
		Redelivered bool   `json:"redelivered"`
	} `json:"delivery_info"`
}

// ScheduledTask is a task that waits in a worker for its ETA.
type ScheduledTask struct {
	ETA      string   `json:"eta"` // ISO 8601
	Priority int64    `json:"priority"`
	Request  TaskInfo `json:"request"`
}

// QueueInfo is a queue that a worker reads.
type QueueInfo struct {
	Name       string `json:"name"`
	RoutingKey string `json:"routing_key"`
	Durable    bool   `json:"durable"`
	Exclusive  bool   `json:"exclusive"`
	AutoDelete bool   `json:"auto_delete"`
	Exchange   struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"exchange"`
	Arguments map[string]any `json:"queue_arguments"`
}

// WorkerStats are counts of a worker. [Control.Call]'s reply to "stats" has more.
type WorkerStats struct {
	Total         map[string]int64 `json:"total"` // tasks accepted since the start, by name
	PID           int64            `json:"pid"`
	Clock         json.Number      `json:"clock"`
	Uptime        float64          `json:"uptime"` // seconds
	PrefetchCount int64            `json:"prefetch_count"`
	Pool          struct {
		MaxConcurrency int64   `json:"max-concurrency"`
		Processes      []int64 `json:"processes"`
	} `json:"pool"`
}

// Active returns the tasks being executed, by node.
func (c *Control) Active(ctx context.Context, to Destination) (map[string][]TaskInfo, error) {
	return inspect[[]TaskInfo](ctx, c, to, "active", map[string]any{"safe": nil})
}

// Reserved returns the tasks received and not yet started, by node.
func (c *Control) Reserved(ctx context.Context, to Destination) (map[string][]TaskInfo, error) {
	return inspect[[]TaskInfo](ctx, c, to, "reserved", map[string]any{"safe": nil})
}

// Scheduled returns the tasks that wait for their ETA, by node.
func (c *Control) Scheduled(ctx context.Context, to Destination) (map[string][]ScheduledTask, error) {
	return inspect[[]ScheduledTask](ctx, c, to, "scheduled", map[string]any{"safe": nil})
}

// Stats returns the workers' statistics, by node.
func (c *Control) Stats(ctx context.Context, to Destination) (map[string]WorkerStats, error) {
	return inspect[WorkerStats](ctx, c, to, "stats", nil)
}

// ActiveQueues returns the queues that workers read, by node.
func (c *Control) ActiveQueues(ctx context.Context, to Destination) (map[string][]QueueInfo, error) {
	return inspect[[]QueueInfo](ctx, c, to, "active_queues", nil)
}

// Revocation is the way in which tasks are revoked.
type Revocation struct {
	Terminate bool   // also kill the processes of running tasks
	Signal    string // with this signal; default: SIGTERM
}

// Revoke makes workers drop tasks that they receive later, or have and haven't started. Workers forget that when
// they restart. Revoke returns their answers.
func (c *Control) Revoke(ctx context.Context, to Destination, ids []string, how Revocation) (map[string]string, error) {
	answers, err := inspect[struct{ OK string }](ctx, c, to, "revoke", map[string]any{
		"task_id": ids, "terminate": how.Terminate, "signal": cmp.Or(how.Signal, "SIGTERM"),
	})
	texts := map[string]string{}
	for node, a := range answers {
		texts[node] = a.OK
	}
	return texts, err
}

// RegisteredTask is a task that a worker has registered.
type RegisteredTask struct {
	Name string
	// Function is the name of the task's Python function; "" if the worker has none, because the task is a class
	// with a method.
	Function string
}

// registered matches a task in the form in which a worker lists it with its function.
var registered = regexp.MustCompile(`^(\S+)(?: \[run=<(?:function|bound method) (?:[^ ]*\.)?([^ .]+) )?`)

// Registered returns the workers' registered tasks, by node, without Celery's own.
func (c *Control) Registered(ctx context.Context, to Destination) (map[string][]RegisteredTask, error) {
	texts, err := inspect[[]string](ctx, c, to, "registered", map[string]any{"taskinfoitems": []string{"run"}})
	tasks := map[string][]RegisteredTask{}
	for node, list := range texts {
		tasks[node] = nil
		for _, text := range list {
			m := registered.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			t := RegisteredTask{Name: m[1], Function: m[2]}
			if t.Function == "run" {
				t.Function = ""
			}
			tasks[node] = append(tasks[node], t)
		}
	}
	return tasks, err
}
