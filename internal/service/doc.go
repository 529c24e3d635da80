// Package service holds the common parts of all daemons: back-off, log lines about an unavailable service, loops,
// and the start and stop of components.
//
// # States
//
// A daemon is starting, running, stopping or stopped. It starts even if its services are unavailable: it logs once
// which one is missing and retries, with back-off. Stopping has two steps, each with its own context:
//
//   - Run's own context ends: the daemon takes on no new work.
//   - The context that InFlight returns ends when the grace period is over: the daemon abandons the work in flight. All work
//     of the daemons can be abandoned at any point (a claim and its messages are one transaction, an acknowledgement
//     follows its transaction): that costs a repetition, not a loss.
//
// # Failures
//
// An error of one round does not end the daemon. Loop logs when rounds of its work begin to fail, and when one
// succeeds again, but not each try, and waits by Backoff. Service does the same for the services of the daemon. A
// component's Run returns only errors that a retry does not cure; such an error stops the whole Group.
//
// This package imports none of ours and starts nothing by itself.
package service
