// Package hints receives the news of sources outside that origins have changed: it writes hints of many requests
// in one transaction ([Batcher]), and reads webhooks of forges ([Webhooks]).
//
// # Group commit
//
// The first request that finds no transaction in progress begins one. Requests that come meanwhile wait, and the next
// transaction has the hints of all of them. A request gets its answer after the commit of its hints, so that no hint
// is lost after an answer. If a transaction with the hints of several requests fails, each request gets one of its own.
//
// # Webhooks
//
//	POST /hints/SOURCE ──► address limit ──► body ──► signature ──► repeated? ──► hints ──► hosts ──► source limit ──► commit
//	                        429               413      401           200           400      403       429              200
//
// A source is a part of the configuration: its forge, which decides how a webhook is signed and what its body is; its
// secrets; and the hosts that it may name. Nothing of a body is read as JSON before its signature is right.
//
// # Replays
//
// The webhooks of the last two hours, 100,000 at most, are known by their hash in each process: a repeated one gets
// the result repeated and changes nothing. A webhook that is repeated later, or at another process, moves an origin at
// most to the present date. So it causes at most one visit in a cooldown.
package hints
