// Package celery speaks to Celery workers over RabbitMQ as Celery 5.7 itself
// does: it publishes protocol 2 task messages, declares queues, measures them,
// reads worker events, and sends remote control commands. It knows nothing of
// any particular application.
//
// # Publishing
//
// A [Publisher] holds one connection and one channel in confirm mode. It
// connects when first needed. [Publisher.Publish] encodes each message, sends
// it as mandatory, keeps a bounded number in flight, and gives one result a
// message. A message ends in exactly one of these states:
//
//	confirmed    nil                   the broker has it (on disk, if the queue is durable)
//	returned     *ReturnedError        there is no such queue; the broker dropped it
//	rejected     *RejectedError        the broker refused it (a queue that is full and rejects)
//	impossible   *EncodingError        it can't be encoded, or is too large; it never will be sent
//	not sent     errors.Is ErrNotSent  nothing was written; sending it again is safe
//	unconfirmed  errors.Is ErrUnconfirmed  written, but the connection was lost or the time ran
//	             out before the broker answered; sending it again may make a second copy
//
// A lost connection is made again with growing, jittered pauses, trying the
// broker's URLs in turn. Messages in flight when it is lost are unconfirmed;
// those not yet sent go out over the next connection. A broker that blocks
// publishers (a memory or disk alarm) is waited for. Cancelling the context
// stops further sending at once; what is in flight is given a bounded time to
// be confirmed.
//
// A message's time limits travel in its header timelimit, hard and soft, in
// seconds or fractions of them. Workers of the prefork pool enforce both; a limit
// that is not given is the worker's own.
//
// # Consuming
//
// A [Consumer] hands deliveries over in order and leaves acknowledging to the
// caller, in ranges. Whatever isn't acknowledged is delivered again, marked
// so, after the connection is lost or the consumer is cancelled because its
// queue was deleted. Acknowledging a delivery of an earlier connection does
// nothing. Messages above a limit are cut while they are read and marked, so
// one poisonous message can't take all memory.
//
// # Measuring
//
// A [QueueInspector] gives an upper bound of a queue's length that is exact
// whenever it can be: see [QueueInspector.Length].
//
// # Remote control
//
// A [Control] sends commands to running workers and gathers their replies. It
// keeps no state: each call has a connection of its own, and a worker that
// doesn't reply in time is simply not among the replies.
//
// # Two connections
//
// RabbitMQ stops reading from connections that publish while it is short of
// memory or disk. Publishers, consumers and inspectors therefore never share
// a connection.
package celery
