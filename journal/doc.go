// Package journal keeps the visit stats up to date from the journal: it reads
// how visits ended from the Kafka topic origin_visit_status and writes what the
// scheduler needs to know to the table origin_visit_stats.
//
// # Flow
//
// records (Kafka) → decode → batch → transactions → commit of the offsets. A large
// batch is written by up to four transactions, two at a time, each with its own origins.
//
// record.go reads a value, visit_stats.go holds the rules (pure but for the fudge of intervals), consumer.go is
// a member of a Kafka consumer group, settings.go translates librdkafka's
// settings, journal.go is the loop. A batch is what is at hand, bounded in number,
// bytes and delay; its size changes the speed, never the outcome.
//
// # States of a record
//
// A record is skipped (no final status, no visit type), ignored (dated not after
// the last known visit of its origin), applied, held (a failed visit whose work is on a lane: it counts,
// or not, once that work has ended), or set aside: it could not be
// understood, PostgreSQL refused its values, or it met a fault of the program (a panic), twice. One that is set aside is kept, by
// topic, partition and offset, in scheduler_go.rejected_records, and counted. In
// each case its offset is committed with those of its batch.
//
// # Failures
//
// Offsets are committed after the batch's transactions, never before. If a process
// ends between the two, the next one reads records again, which changes nothing:
// they are dated not after the last known visit. The same holds for whatever a
// rebalance brings twice.
//
// A rebalance waits until the batch in hand is applied and committed. Only while
// the database is away is the batch given up instead, so as not to hold up the
// group; it is read again from the committed offsets.
//
// A batch of a producer that decompresses to more than 32 MiB stops its partition: the log has
// the partition and the offset, the lag grows, and the other partitions go on. With on_eof: stop
// the client ends with that error once it has read the others.
//
// PostgreSQL and Kafka are retried with back-off for as long as it takes, and a topic
// that is not there is waited for. What stops Run is what waiting does not cure: a
// group that refuses this member, another member of the same static name.
//
// # Speed
//
// PostgreSQL bounds a replay: seven of ten samples of its backends are in the
// update of origin_visit_stats (with the row that its trigger adds to
// candidate_changes), while this process takes a quarter of one core
// (BenchmarkReplayOfAll: 2,000,000 records over four partitions). So what helps is
// fewer updates (large batches, in which an origin's visits become one) and
// transactions side by side.
//
// # What is not promised
//
// The records of one origin come through several partitions, hence in any order,
// and to several members. Stats are locked for the transaction, so nothing is lost
// between members, and the date, status and snapshot of the last visit end as those
// of the visit dated last. What depends on the visits before it (offset, position,
// successive visits, so also whether an origin is disabled, and the last success if
// a later failure was seen first) counts visits in the order of arrival, without
// those that came late, as with the Python scheduler. Of two visits with the same date the
// first to come counts.
package journal
