// Package journal keeps the visit stats up to date from the journal: it reads
// how visits ended from the Kafka topic origin_visit_status and writes what the
// scheduler needs to know to the table origin_visit_stats.
//
// # Flow
//
// records (Kafka) → decode → batch → transactions → commit of the offsets. A large
// batch is written by up to four transactions at once, each with origins of its
// own.
//
// record.go reads a value, visit_stats.go holds the rules (pure), consumer.go is
// a member of a Kafka consumer group, settings.go understands librdkafka's
// settings, journal.go is the loop. A batch is what is at hand, within bounds of
// number, bytes and delay; its size changes the speed and never the outcome.
//
// # States of a record
//
// A record is stepped over (no final status, no visit type), ignored (dated not
// after the last visit that is known of its origin), applied, or set aside: it
// could not be understood, or PostgreSQL refused its values. One that is set
// aside is kept, by topic, partition and offset, in
// scheduler_go.rejected_records, counted, and passed. In each case its offset is
// committed with those of its batch.
//
// # Failures
//
// Offsets are committed after the batch's transactions, never before: a process that ends
// between the two makes the next one read records again, and these change
// nothing, being dated not after the last visit that is known. So is whatever a
// rebalance brings twice.
//
// A rebalance waits for the batch in hand, and the batch is applied and
// committed before its partitions go to another member. Only while the database
// is away is the batch given up instead, so as not to hold up the group; it will
// be read again from the committed offsets.
//
// PostgreSQL and Kafka are tried again with back-off for as long as it takes.
// What stops Run is what waiting does not cure: a topic that does not exist at
// start, a group that refuses this member, another member of the same static
// name.
//
// # Speed
//
// A replay is bounded by PostgreSQL: seven of ten samples of its backends are in
// the update of origin_visit_stats (with the row that its trigger adds to
// candidate_changes), while this process takes a quarter of one core to read,
// decode and reduce (BenchmarkReplayOfAll: 2,000,000 records over four
// partitions). So what helps is what spares updates: large batches, in which an
// origin's visits become one, and transactions side by side.
//
// # What is not promised
//
// The records of one origin come through several partitions, hence in any order,
// and to several members. Stats are locked for the transaction, so whatever the
// order of arrival nothing is lost between members, and the date, status and
// snapshot of the last visit end as those of the visit dated last. What depends
// on the visits before it (offset, position, successive visits, so also whether
// an origin is disabled, and the last success if a later failure was seen first)
// counts the visits in the order of arrival, without those that came late, as
// with the peer. Two visits with the same date count as one: the first to come.
package journal
