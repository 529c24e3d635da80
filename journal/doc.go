// Package journal updates the visit stats from the journal. It reads the ends of visits from the Kafka
// topic origin_visit_status and writes them to the table origin_visit_stats.
//
// # Flow
//
// records (Kafka) → decode → batch → transactions → commit of the offsets. A large
// batch is written by up to four transactions, two at a time, each with its own origins.
//
// record.go decodes a value. visit_stats.go has the rules (pure except for the random part of intervals).
// consumer.go is a member of a Kafka consumer group. settings.go translates librdkafka's settings.
// journal.go has the loop. A batch is the set of available records, bounded in number, bytes and delay. Its
// size changes the speed, never the outcome.
//
// # States of a record
//
// A record is in one of five states:
//
// Skipped: it has no final status or no visit type. Ignored: its date is not after the last known visit of
// its origin. Applied. Held: a failed visit whose work is on a lane; the end of that work decides whether
// the visit counts. Set aside: it could not be decoded, PostgreSQL refused its values, or it met a panic of
// the program twice.
//
// Records set aside are stored by topic, partition and offset in scheduler_go.rejected_records, and
// counted. In each state the record's offset is committed with its batch.
//
// # Failures
//
// Offsets are committed after the batch's transactions, never before. If a process ends between the two,
// the next process reads records again. They change nothing: their dates are not after the last known
// visit. The same holds for records that a rebalance brings twice.
//
// A rebalance waits until the current batch is applied and committed. While the database is down, the batch
// is given up instead, so that the group doesn't wait. The batch is read again from the committed offsets.
//
// A producer's batch that decompresses to more than 32 MiB stops its partition. The log has the partition
// and the offset, the lag grows, and the other partitions go on. With on_eof: stop, the client returns that
// error after it has read the other partitions.
//
// PostgreSQL and Kafka are retried with back-off for ever, and so is a missing topic. Run returns only
// errors that a retry can't overcome: a group that refuses this member, or another member with the same
// static name.
//
// # Speed
//
// PostgreSQL bounds the speed of a replay. Seven of ten samples of its backends are in the update of
// origin_visit_stats (with the row that its trigger adds to candidate_changes). This process takes a
// quarter of one core (BenchmarkReplayOfAll, over four partitions). Two things increase
// the speed: fewer updates (large batches, in which the visits of an origin become one) and concurrent
// transactions.
//
// # No guarantees
//
// The records of one origin come through several partitions, so in any order and to several members. A
// transaction locks the stats, so members lose no update. Date, status and snapshot of the last visit end
// as those of the visit with the latest date. Other fields depend on the visits before: offset, position
// and successive visits (so also whether an origin is disabled), and the last success if a later failure
// came first. These count visits in the order of arrival, without late ones, as in the Python scheduler. Of
// two visits with the same date, the first to arrive counts.
package journal
