// Package refusals reads from the error of a failed visit whether its hoster refused it, and computes how many visits
// the hoster gets then. It is pure.
//
// # What loaders report
//
// Loaders catch exceptions. The listener receives the text of the exception without its class (a task-result with
// error), or the last line of a traceback (task-failed). Kind matches both. The rows of TestKind are the texts of the
// archive's own loaders and listers against servers that refuse.
//
//	loader                     429, 503 and broken connections            Retry-After
//	git                        failed, with the text                      urllib3 waits and retries thrice; not in the text
//	content, tarball directory not found: no refusal can be read          -
//	packages                   failed without a text, or a partial visit  -
//	others                     failed, with the text of requests          -
//
// # What follows
//
// State.Refused and State.Succeeded are an additive increase and a multiplicative decrease of the visits in flight.
// Learn applies the ends of a batch of events to the states of their hosters.
package refusals
