package celery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxQuestions is how many queues the broker is asked about at once, each on a channel of its own: more than one
	// process has, as a rule, so that those of a node that is stopped don't hold up the others.
	maxQuestions = 64
	// maxRequests is how many requests the management API gets at once.
	maxRequests = 8
	// idleChannels is how many channels are kept for the next questions.
	idleChannels = 8
)

// Observation is what the broker was seen to hold in a queue: by its statistics, some seconds ago, and by its own
// answer, at a moment after that.
type Observation struct {
	Figures QueueFigures // of the statistics; the zero value knows nothing

	Asked     time.Time // before the broker itself was asked, by the clock of who observes
	Exists    bool
	Ready     int // messages waiting for a consumer
	Consumers int
	Err       error // why the broker told nothing; see IsOfQueue
}

// Since returns the earliest moment that the figures may be of: they may not count what was published later. It is
// not later than Asked.
func (o Observation) Since() time.Time {
	if since := o.Figures.Since(); !o.Figures.Asked.IsZero() && since.Before(o.Asked) {
		return since
	}
	return o.Asked
}

// Length returns an upper bound of what the queue held when the broker itself was asked. delivered is how many messages
// the caller knows to have been confirmed on it from Since on and before Asked. Messages that were on their way at
// Asked are not counted.
//
// The broker itself counts the ready messages. The count of unacknowledged ones comes
// from the figures, so it is raised to an upper bound: since then, no more messages can
// have gone from ready to unacknowledged than were ready or came since, and are not ready
// now; and no consumer holds more than its prefetch limit. (What can escape is what others published and
// consumers fetched since, and what a consumer holds above the lower limit of one whose place it took.) If the figures know nothing, the unacknowledged
// messages are unknown.
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
	moved := max(0, *past.Ready+delivered-o.Ready)
	length.Unacknowledged = *past.Unacknowledged + moved
	// The limits count only if they are those of all consumers there are now.
	if moved > 0 && len(past.Consumers) >= o.Consumers && o.Figures.prefetch >= 0 {
		// What was counted is counted, even if its consumer has left.
		length.Unacknowledged = min(length.Unacknowledged, max(o.Figures.prefetch, *past.Unacknowledged))
	}
	return length, nil
}

// Observe observes some queues, all at once, and returns what was seen of each, by name. statistics says whether the
// management API is asked, too. now is the clock of Asked and Since, which must not be ahead of the clock that the
// caller compares them with.
//
// It takes no longer than the time-out of the management API and twice that of a queue: what has not answered by then
// is unknown, or a QueueDownError. Queues that answer are not held up by those that don't.
func (q *QueueInspector) Observe(ctx context.Context, now func() time.Time, queues []string, statistics bool) map[string]Observation {
	observed := make([]Observation, len(queues))
	if statistics {
		// A second more than the API's own time-out, by which it is taken for silent.
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

// observe asks the broker itself about a queue.
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
