package celery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxQuestions is how many queues are declared passively at once, each on a channel of its own. It is above the
	// usual number of queues of a process, so that the queues of a stopped node don't delay the others.
	maxQuestions = 64
	// maxRequests is how many requests the management API gets at once.
	maxRequests = 8
	// idleChannels is how many channels are stored for further requests.
	idleChannels = 8
)

// Observation is the broker's state of a queue: by its statistics, some seconds ago, and by a passive declare after
// that.
type Observation struct {
	Figures QueueFigures // statistics; the zero value has none

	Asked     time.Time // before the passive declare, by the observer's clock
	Exists    bool
	Ready     int // messages waiting for a consumer
	Consumers int
	Err       error // why the passive declare failed; see IsOfQueue
}

// Since returns the earliest moment of the figures: they may not count messages published later. It is not later
// than Asked.
func (o Observation) Since() time.Time {
	if since := o.Figures.Since(); !o.Figures.Asked.IsZero() && since.Before(o.Asked) {
		return since
	}
	return o.Asked
}

// Length returns an upper bound of the queue's messages at the passive declare. delivered is the number of messages
// that the caller has confirmed on it from Since on and before Asked. It doesn't count messages that were on their
// way at Asked.
//
// The passive declare counts the ready messages. The count of unacknowledged messages comes from the figures, so
// Length raises it to an upper bound. At most the messages that were ready then or came since, and are not ready
// now, have become unacknowledged. No consumer holds more than its prefetch limit. The bound does not cover messages
// that others published and consumers fetched since. Nor does it cover what a consumer holds above the lower limit
// of a consumer that replaced it. If the figures have no counts, the number of unacknowledged messages is unknown.
//
// If the passive declare of a quorum queue found neither messages nor consumers, Length returns what the figures and the
// deliveries since allow: see isSilent. Without figures it can't.
func (o Observation) Length(delivered int) (QueueLength, error) {
	switch {
	case o.Err != nil:
		return QueueLength{}, o.Err
	case !o.Exists:
		return QueueLength{}, nil
	case o.Figures.stats.down():
		return QueueLength{}, &QueueDownError{o.Figures.queue, "its state is " + o.Figures.stats.State}
	}
	length := QueueLength{Exists: true, Ready: o.Ready, Consumers: o.Consumers, Unknown: !o.Figures.known}
	if !o.Figures.answered {
		length.Unacknowledged = delivered
		return length, nil
	}
	past := o.Figures.stats
	if past.Type == "quorum" && isSilent(o.Ready, o.Consumers) { // no message was ready later than both
		length.Ready, length.Unacknowledged, length.Consumers = *past.Ready+delivered, *past.Unacknowledged, len(past.Consumers)
		return length, nil
	}
	moved := max(0, *past.Ready+delivered-o.Ready)
	length.Unacknowledged = *past.Unacknowledged + moved
	// The limits apply only if they are those of all present consumers.
	if moved > 0 && len(past.Consumers) >= o.Consumers && o.Figures.prefetch >= 0 {
		// A counted message stays counted, even if its consumer has left.
		length.Unacknowledged = min(length.Unacknowledged, max(o.Figures.prefetch, *past.Unacknowledged))
	}
	return length, nil
}

// isSilent reports whether the answer to a passive declare may mean that the queue didn't answer. RabbitMQ answers for
// a quorum queue that it has neither messages nor consumers if the leader doesn't answer within 250 ms
// (rabbit_quorum_queue:stat/2). A busy machine is enough.
func isSilent(ready, consumers int) bool { return ready == 0 && consumers == 0 }

// Observe observes queues, all at once, and returns the observation of each, by name. statistics adds the management
// API's figures. now is the clock of Asked and Since, which must not be ahead of the clock that the caller compares
// them with.
//
// It takes no longer than the time-out of the management API and twice that of a queue. A queue without an answer by
// then is unknown, or a QueueDownError. Such queues don't delay the others.
func (q *QueueInspector) Observe(ctx context.Context, now func() time.Time, queues []string, statistics bool) map[string]Observation {
	observed := make([]Observation, len(queues))
	if statistics {
		// This is a second more than the API's own time-out, after which the API counts as silent.
		asking, cancel := context.WithTimeout(ctx, q.management.timeout+time.Second)
		each(len(queues), maxRequests, func(i int) { observed[i].Figures = q.figures(asking, now, queues[i]) })
		cancel()
	}
	bound := 2 * q.questions.timeout
	asking, cancel := context.WithTimeoutCause(ctx, bound, errBound)
	defer cancel()
	each(len(queues), maxQuestions, func(i int) {
		observed[i] = q.observe(asking, now, queues[i], observed[i].Figures)
		if ctx.Err() == nil && errors.Is(observed[i].Err, errBound) {
			observed[i].Err = &QueueDownError{queues[i], fmt.Sprintf("not asked within %s, as others don't answer", bound)}
		}
	})
	byName := make(map[string]Observation, len(queues))
	for i, queue := range queues {
		byName[queue] = observed[i]
	}
	return byName
}

var errBound = errors.New("the time for all questions is over")

// observe declares a queue passively.
func (q *QueueInspector) observe(ctx context.Context, now func() time.Time, queue string, figures QueueFigures) Observation {
	o := Observation{Figures: figures, Asked: now()}
	found, state, err := q.now(ctx, queue)
	if err != nil {
		o.Err = fmt.Errorf("measuring queue %q: %w", queue, err)
	}
	o.Exists, o.Ready, o.Consumers = found, state.Messages, state.Consumers
	return o
}

// each calls f for 0 to n-1, for up to most of them at once.
func each(n, most int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	free := make(chan struct{}, most)
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			f(i)
			<-free
		})
	}
	all.Wait()
}
