// Package msgpack reads and writes msgpack, for Celery's events and replies, the RPC protocol and the journal. It
// doesn't depend on the scheduler's types.
//
// A [Reader] reads one value after another from a document in memory: a number, a text, or the head of a list or map,
// whose elements follow. It copies and allocates nothing. It refuses a length that exceeds the rest of the document.
// Callers that recurse into lists and maps must bound the depth; [Reader.Skip] doesn't recurse.
//
// The Append functions write the bytes of Python's msgpack.packb(…, use_bin_type=True): each integer and each length
// in its shortest form, floats in 64 bits.
package msgpack
