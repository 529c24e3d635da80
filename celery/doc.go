// Package celery implements the client side of Celery 5.7 over RabbitMQ: it publishes protocol 2 task messages,
// declares queues, measures them, reads worker events, and sends remote control commands. It uses no type of the
// scheduler.
//
// # Publishing
//
// A [Publisher] holds one connection and one channel in confirm mode, made when
// first needed. [Publisher.Publish] sends each message as mandatory, keeps a
// bounded number in flight, and returns one result per message:
//
//	confirmed    nil                   the broker has it (on disk, if the queue is durable)
//	returned     *ReturnedError        there is no such queue; the broker dropped it
//	rejected     *RejectedError        the broker refused it (a queue that is full and rejects)
//	impossible   *EncodingError        it can't be encoded, or is too large; it never will be sent
//	not sent     errors.Is ErrNotSent  nothing was written; sending it again is safe
//	queue down   *QueueDownError       not sent, as its queue doesn't answer for those before it
//	unanswered   *UnansweredError      written, and the broker may still answer: see there
//	unconfirmed  errors.Is ErrUnconfirmed  written, but the connection was lost before the broker
//	             answered; sending it again may make a second copy. Also an UnansweredError
//
// A lost connection is made again with growing, jittered pauses, trying the broker's URLs in turn. Messages in
// flight are then unconfirmed; unsent messages go out over the next connection. While the broker blocks publishers
// (a memory or disk alarm), they wait. Cancelling the context stops further sending at once; messages in flight have
// a bounded time to be confirmed.
//
// One queue that doesn't answer can block a whole connection. So a connection with unanswered messages stays open
// only for their answers, and all other messages go over a new one.
//
// [SendSettings] has Celery's settings of how messages are sent: serializer, compression,
// delivery mode, and routes by the tasks' names.
//
// A message's time limits are in its header timelimit, hard and soft, in seconds or fractions of them. Workers of
// the prefork pool enforce both; without a limit in the message, the worker's own applies.
//
// # Consuming
//
// A [Consumer] delivers messages in order, and its caller acknowledges them, in ranges. Unacknowledged messages are
// delivered again, marked as such, after the connection is lost or the queue was deleted. Acknowledging a delivery
// of an earlier connection does nothing. Messages above a limit are cut while they are read, and marked, so that
// none can take all memory.
//
// # Measuring
//
// A [QueueInspector] returns an upper bound of a queue's length, which is exact whenever possible: see
// [QueueInspector.LengthSince]. A queue that can't be observed is an error of this queue ([IsOfQueue]), never an
// empty one.
//
// # Remote control
//
// A [Control] sends commands to running workers and collects their replies. Each call has its own connection. A
// worker that doesn't reply in time is missing from the replies.
//
// # Two connections
//
// RabbitMQ stops reading from connections that publish while it is short of
// memory or disk. So publishers, consumers and inspectors never share one.
package celery
