package rpc

import (
	"context"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	smallBody       = 64 << 10
	defaultRoomWait = 20 * time.Second // below bodyTimeout, within which the rest must come
	retryAfter      = "5"              // seconds

	maxSmallValues = 1 << 20 // values of small bodies
	// tinyBody is the size up to which bodies need no room for their values. So ordinary calls don't wait behind
	// bodies that were made to hold many values. All tiny bodies together hold maxSmallValues at most.
	tinyBody = maxSmallValues / maxCalls
	// rowSize is the approximate memory of a row of an answer besides its values, in bytes.
	rowSize = 128
	// answerStep is the step in which a growing answer reserves room, in bytes.
	answerStep = 256 << 10
	// collectFrom is the size from which the garbage of a body is collected before another has its room.
	collectFrom = 8 << 20
)

// room bounds the memory of all calls in progress together. A call without room waits, or gets 503.
type room struct {
	callers *callers
	// A call whose body is larger than smallBody waits until its bytes fit beside those of the other large bodies in
	// progress. Small bodies never wait.
	bodies    *semaphore.Weighted
	allBodies int64 // what bodies holds
	// Values of bodies, of small ones and of large ones: a value may be one byte of a body and take 40 in memory.
	smallValues, largeValues *semaphore.Weighted
	// Values of graphs.
	graphs *semaphore.Weighted
	// Rows that are read for answers, and the answers, in bytes: allAnswers each.
	answers, encodings *semaphore.Weighted
	allAnswers         int64
	wait               time.Duration
}

func newRoom(bodies, answers int64, wait time.Duration) room {
	return room{
		callers: newCallers(), bodies: semaphore.NewWeighted(bodies), allBodies: bodies, answers: semaphore.NewWeighted(answers), encodings: semaphore.NewWeighted(answers), allAnswers: answers,
		smallValues: semaphore.NewWeighted(maxSmallValues), largeValues: semaphore.NewWeighted(int64(defaultLimits.values)),
		graphs: semaphore.NewWeighted(maxGraphValues), wait: wait,
	}
}

func errNoRoom() error {
	return httpError(http.StatusServiceUnavailable, "ServiceUnavailable", "The server has too many or too large requests in hand; try again later.")
}

// reserve waits for room for n units, until it is released. It returns an error with the status 503 if that takes
// too long.
func (r room) reserve(ctx context.Context, of *semaphore.Weighted, n int64) error {
	if of.TryAcquire(n) { // without the cost of a time limit
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	if of.Acquire(waiting, n) != nil {
		return errNoRoom()
	}
	return nil
}

// ofOne returns the part of its address's room that a large body takes.
func (r room) ofOne(size int64) int64 { return min(size, max(1, r.allBodies/2)) }

// share is the room of one call, until it is answered.
type share struct {
	room
	most int64        // of an answer, in bytes
	from netip.Prefix // address of the caller; the zero prefix has no bounds of its own

	who            *caller
	arrival        *arrival
	callSlot       bool
	large          int64 // reserved, of the room of its address
	body, answered int64 // reserved
	values         int64 // reserved, of
	of             *semaphore.Weighted
	graph          int64 // reserved
	jsonLeft       int   // bytes of JSON that may still be made of the body's values
	read           int64 // of the answer so far
	encoded        int64 // reserved, of encodings
}

// await counts the call's body as awaited, so that not too many come slowly. It sets deadlines for the rest until
// arrived is called.
func (s *share) await(deadline func(time.Time)) {
	s.arrival = &arrival{deadline: deadline}
	s.callers.await(s.caller(), s.from.IsValid(), s.arrival)
}

// arrived ends await: the body has arrived whole, or can't be read.
func (s *share) arrived(whole bool) { s.callers.arrived(s.who, s.arrival, whole) }

// enter starts a call, after its body has arrived. It returns an error with the status 503 if there are too many.
func (s *share) enter() error {
	if s.callSlot = s.callers.enter(s.caller(), s.from.IsValid()); !s.callSlot {
		return errNoRoom()
	}
	return nil
}

// enlarge waits for room for a large body.
func (s *share) enlarge(ctx context.Context, size int64) error {
	if s.arrival == nil {
		s.arrival = &arrival{deadline: func(time.Time) {}}
	}
	err := s.callers.large(ctx, s.room, s.caller(), s.arrival, size)
	if err == nil {
		s.body, s.large = size, s.ofOne(size)
	}
	return err
}

// shrink releases the room that a body turned out not to need.
func (s *share) shrink(size int64) {
	if spare := s.body - size; spare > 0 {
		s.bodies.Release(spare)
		s.body = size
		less := s.large - s.ofOne(size)
		s.who.large.Release(less)
		s.large -= less
	}
}

// caller returns the counts of the caller's address.
func (s *share) caller() *caller {
	if s.who == nil {
		s.who = s.callers.of(s.from, s.allBodies)
	}
	return s.who
}

// decode reads a body's values. Unless the body is tiny, it first waits for room as if each byte were a value.
func (s *share) decode(ctx context.Context, body []byte, read func([]byte, limits) (any, error)) (any, error) {
	l := defaultLimits
	s.jsonLeft = maxJSON
	l.json = &s.jsonLeft
	if len(body) <= tinyBody {
		return read(body, l)
	}
	if s.of = s.smallValues; len(body) > smallBody {
		s.of = s.largeValues
	}
	most := int64(min(len(body), defaultLimits.values))
	if err := s.reserve(ctx, s.of, most); err != nil {
		return nil, err
	}
	s.values = most
	l.used = new(int64)
	value, err := read(body, l)
	if spare := most - *l.used; spare > 0 {
		s.of.Release(spare)
		s.values -= spare
	}
	return value, err
}

// holdGraph waits for room for a graph of so many values.
func (s *share) holdGraph(ctx context.Context, values int64) error {
	err := s.reserve(ctx, s.graphs, values)
	if err == nil {
		s.graph = values
	}
	return err
}

// grow makes room for one more row of the answer. An answer that is too large is an error with the status 413; one
// without room beside others is an error with 503.
func (s *share) grow(size int) error {
	if s.read += int64(size) + rowSize; s.read > s.most {
		x := valueError("the answer would hold more than %d bytes; ask for fewer rows", s.most)
		x.status = statusTooLarge
		return x
	}
	for s.read > smallBody && s.read > s.answered {
		step := min(answerStep, s.most-s.answered)
		if !s.answers.TryAcquire(step) {
			return errNoRoom()
		}
		s.answered += step
	}
	return nil
}

// written makes room for an answer that grows to a size. An answer that is not small will be about twice as large as
// the rows read for it, so it waits until others are sent. The answer to a change does not wait, because the change
// is already made. An answer that is far too large is an error with the status 413.
func (s *share) written(ctx context.Context, size int, changes bool) error {
	if int64(size) > 2*s.most {
		return tooLarge("the answer would have more than %d bytes; ask for fewer rows, or for msgpack", 2*s.most)
	}
	if size <= smallBody || s.encoded > 0 {
		return nil
	}
	most := min(2*max(s.read, int64(size)), s.allAnswers)
	err := s.reserve(ctx, s.encodings, most)
	if err == nil {
		s.encoded = most
	} else if changes {
		err = nil
	}
	return err
}

// leave releases all room.
func (s *share) leave() {
	if s.body >= collectFrom {
		runtime.GC() // otherwise the garbage of this body may still be there when the next one comes
	}
	s.bodies.Release(s.body)
	if s.of != nil {
		s.of.Release(s.values)
	}
	s.graphs.Release(s.graph)
	s.answers.Release(s.answered)
	s.encodings.Release(s.encoded)
	if s.callSlot {
		s.callers.leave(s.who)
	}
	if s.who != nil {
		s.who.large.Release(s.large)
		s.callers.left(s.from, s.who)
	}
}
