package rpc

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	smallBody       = 64 << 10
	defaultRoomWait = 20 * time.Second // below bodyTimeout, within which the rest must come
	retryAfter      = "5"              // seconds

	maxCalls       = 1024    // in hand
	maxSmallValues = 1 << 20 // that small bodies hold
	// tinyBody is the size up to which bodies need no room for their values: so ordinary calls
	// don't wait behind bodies made to hold many. All calls' together hold maxSmallValues at most.
	tinyBody = maxSmallValues / maxCalls
	// rowSize is what a row of an answer takes beside its values, roughly, in bytes.
	rowSize = 128
	// answerStep is how much room a growing answer takes at a time, in bytes.
	answerStep = 256 << 10
)

// room bounds what the calls in hand take of memory, together. What there is no room for
// waits, or is answered 503.
type room struct {
	calls *semaphore.Weighted
	// A call whose body is larger than smallBody waits until it fits beside the large ones
	// that are being answered, in bytes. Small bodies never wait.
	bodies *semaphore.Weighted
	// Values that bodies hold, of small ones and of large ones: a value may be one byte of a
	// body and take 40 in memory.
	smallValues, largeValues *semaphore.Weighted
	// What is read to answer, in bytes.
	answers *semaphore.Weighted
	wait    time.Duration
}

func newRoom(bodies, answers int64, wait time.Duration) room {
	return room{
		calls: semaphore.NewWeighted(maxCalls), bodies: semaphore.NewWeighted(bodies), answers: semaphore.NewWeighted(answers),
		smallValues: semaphore.NewWeighted(maxSmallValues), largeValues: semaphore.NewWeighted(int64(defaultLimits.values)), wait: wait,
	}
}

func errNoRoom() error {
	return httpError(http.StatusServiceUnavailable, "ServiceUnavailable", "The server has too many or too large requests in hand; try again later.")
}

// reserve waits for room for n of something, until it is released. It returns an error
// with the status 503 if that takes too long.
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

// share is the room that one call has, until it is answered.
type share struct {
	room
	most int64 // of an answer, in bytes

	callSlot       bool
	body, answered int64 // reserved
	values         int64 // reserved, of
	of             *semaphore.Weighted
	read           int64 // of the answer so far
}

// enter starts a call. It returns an error with the status 503 if there are too many.
func (s *share) enter() error {
	if s.callSlot = s.calls.TryAcquire(1); !s.callSlot {
		return errNoRoom()
	}
	return nil
}

// decode reads a body's values, for which it waits for room unless the body is tiny: at first
// as if each byte were one.
func (s *share) decode(ctx context.Context, body []byte, read func([]byte, limits) (any, error)) (any, error) {
	if len(body) <= tinyBody {
		return read(body, defaultLimits)
	}
	if s.of = s.smallValues; len(body) > smallBody {
		s.of = s.largeValues
	}
	most := int64(min(len(body), defaultLimits.values))
	if err := s.reserve(ctx, s.of, most); err != nil {
		return nil, err
	}
	s.values = most
	l := defaultLimits
	l.used = new(int64)
	value, err := read(body, l)
	if spare := most - *l.used; spare > 0 {
		s.of.Release(spare)
		s.values -= spare
	}
	return value, err
}

// grow makes room for one more row of the answer. An answer that is too large is an error
// with the status 413, one that finds no room beside others has 503.
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

// leave gives all room back.
func (s *share) leave() {
	s.bodies.Release(s.body)
	if s.of != nil {
		s.of.Release(s.values)
	}
	s.answers.Release(s.answered)
	if s.callSlot {
		s.calls.Release(1)
	}
}
