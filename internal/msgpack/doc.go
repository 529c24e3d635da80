// Package msgpack reads and writes msgpack, for Celery's events and replies, the RPC
// and the journal. It knows no type of the scheduler's.
//
// A [Reader] reads one value after another from a document in memory: a number, a
// text, or the head of a list or map, whose elements follow. It copies and allocates
// nothing. No length is believed that the rest of the document cannot hold. Callers
// that recurse into lists and maps must bound the depth; [Reader.Skip] doesn't
// recurse.
//
// The Append functions write as Python's msgpack.packb(…, use_bin_type=True) does:
// each integer and each length in its shortest form, floats in 64 bits.
package msgpack
