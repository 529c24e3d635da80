// Package service holds what all daemons share: back-off, log lines about a service
// that is away, the loop around their work, and how their parts start and stop
// together.
//
// # States
//
// A daemon is starting, running, stopping or stopped. It starts whether or not its
// services are there: it logs once what is missing and retries, with back-off.
// Stopping has two steps, each with its own context:
//
//   - Run's own context ends: nothing new is taken on.
//   - The context that InFlight returns ends when the grace period is over: what
//     is still in flight is abandoned. Everything the daemons do is safe to
//     abandon at any point (a claim and its messages are one transaction, an
//     acknowledgement follows its transaction): that costs a repetition, not a loss.
//
// # Failures
//
// An error of one round of work is not the end of the daemon: Loop logs that rounds
// of its work begin to fail, and that one goes well again, but not each try, and waits
// by Backoff. Service does so for what the daemon depends on. An error that a component's Run returns is one that
// waiting does not cure; it stops the whole Group.
//
// This package imports none of ours and starts nothing by itself.
package service
