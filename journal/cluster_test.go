package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/throwaway"
)

// These subtests need a cluster of their own. They run one after another, as a start takes long.
func TestOwnCluster(t *testing.T) {
	t.Parallel()
	const password = `pass "word" \ 1`
	c := testenv.KafkaCluster(t, 2, map[string]string{"journal": "plain-password"})
	t.Run("SASL", func(t *testing.T) { testSASL(t, c, password) })
	t.Run("SASL over TLS", func(t *testing.T) { testSASLOverTLS(t, c, password) })
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
	t.Run("the coordinator moves", func(t *testing.T) { testCoordinatorMove(t, c) })
	t.Run("brokers are killed", func(t *testing.T) { testBrokersKilled(t, c) })
}

// For each SASL mechanism by librdkafka's name, the right password reads records. With a wrong one, the
// error names the setting and contains no password.
func testSASL(t *testing.T, c *throwaway.KafkaCluster, scramPassword string) {
	s := newStreamAt(t, c.Brokers, 1, 1)
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		results, err := s.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
			{User: "journal", Mechanism: mechanism, Iterations: 4096, Password: scramPassword},
		})
		if err != nil || results.Error() != nil {
			t.Fatal(err, results.Error())
		}
	}
	for i, tc := range []struct{ mechanism, password string }{
		{"PLAIN", "plain-password"}, {"SCRAM-SHA-256", scramPassword}, {"SCRAM-SHA-512", scramPassword},
	} {
		s.produce(0, visitsOf(10, i)...)
		o := s.options()
		o.Brokers = c.SASLBrokers
		o.ConsumerSettings = map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": tc.mechanism,
			"sasl.username": "journal", "sasl.password": tc.password,
		}
		// Brokers get SCRAM users a moment later. Until then they refuse logins, and the client retries.
		if processed := s.run(o); processed != 10 {
			t.Errorf("%s: %d records", tc.mechanism, processed)
		}

		var log testenv.Buffer
		o.ConsumerSettings["sasl.password"] = "wrong-password"
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		stop := s.start(o)
		testenv.Shows(s.t, "SASL_AUTHENTICATION_FAILED", log.String)
		stop()
		if strings.Count(log.String(), "wrong-password") > 0 {
			t.Errorf("%s: the password is in the log", tc.mechanism)
		}
	}
}

// Each mechanism works over TLS with a client certificate only if password, authority and protocol are
// right.
func testSASLOverTLS(t *testing.T, c *throwaway.KafkaCluster, scramPassword string) {
	authority := testenv.Authority(t)
	_, port, err := net.SplitHostPort(tlsProxy(t, c.SASLBrokers[0], authority))
	if err != nil {
		t.Fatal(err)
	}
	cert := authority.Issue(t, "client")
	for mechanism, password := range map[string]string{"PLAIN": "plain-password", "SCRAM-SHA-256": scramPassword, "SCRAM-SHA-512": scramPassword} {
		for name, tc := range map[string]struct {
			more  map[string]string
			works bool
		}{
			"all right":              {nil, true},
			"a wrong password":       {map[string]string{"sasl.password": "wrong"}, false},
			"another user":           {map[string]string{"sasl.username": "nobody"}, false},
			"another authority":      {map[string]string{"ssl.ca.pem": testenv.Authority(t).PEM}, false},
			"another certificate":    {map[string]string{"ssl.certificate.pem": testenv.Authority(t).PEM}, false},
			"TLS without SASL":       {map[string]string{"security.protocol": "ssl"}, false},
			"SASL without TLS":       {map[string]string{"security.protocol": "sasl_plaintext"}, false},
			"neither":                {map[string]string{"security.protocol": "plaintext"}, false},
			"nothing of it verified": {map[string]string{"ssl.ca.pem": testenv.Authority(t).PEM, "enable.ssl.certificate.verification": "false"}, true},
		} {
			settings := map[string]string{
				"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "journal", "sasl.password": password,
				"ssl.ca.pem": authority.PEM, "ssl.certificate.pem": cert.PEM, "ssl.key.pem": cert.KeyPEM,
			}
			maps.Copy(settings, tc.more)
			err := ping(t, "localhost:"+port, settings)
			if (err == nil) != tc.works {
				t.Errorf("%s, %s: %v, should work: %t", mechanism, name, err, tc.works)
			}
			if err != nil && (strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "-----")) {
				t.Errorf("%s, %s: the error holds a secret: %v", mechanism, name, err)
			}
		}
	}
}

// ping sends a request to a broker with the settings.
func ping(t *testing.T, broker string, settings map[string]string) error {
	t.Helper()
	opts, _, err := translate(settings)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(broker), kgo.RequestRetries(1))...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

// The client finds a group's coordinator that moves to another broker. It skips no record and applies none
// twice.
func testCoordinatorMove(t *testing.T, c *throwaway.KafkaCluster) {
	const origins, days = 20, 30
	s := newStreamAt(t, c.Brokers, 2, 1)
	o := s.options()
	o.OnEOF = EOFContinue
	s.start(o)
	s.start(o)
	coordinator := func() int32 {
		found := s.admin.FindGroupCoordinators(t.Context(), s.prefix)
		return found[s.prefix].NodeID
	}
	moved := 0
	for day := range days {
		s.produceDay(origins, day)
		if day%10 != 5 {
			continue
		}
		before := coordinator()
		var moves kadm.AlterPartitionAssignmentsReq
		moves.Assign("__consumer_offsets", 0, []int32{3 - before})
		if r, err := s.admin.AlterPartitionAssignments(t.Context(), moves); err != nil || r.Error() != nil {
			t.Fatal(err, r.Error())
		}
		testenv.Becomes(s.t, "the coordinator", 3-before, coordinator)
		moved++
	}
	if moved != 3 {
		t.Errorf("moved %d times", moved)
	}
	s.checkDays(origins, days)
}

// checkDays waits until every origin has a visit for each day, each counted once, and all offsets are
// committed.
func (s *stream) checkDays(origins, days int) {
	s.t.Helper()
	s.awaitVisits(origins, days)
	s.awaitCommitted(int64(origins * days))
}

// produceDay writes the visits of a day, one per origin, half of them to each of two partitions.
func (s *stream) produceDay(origins, day int) {
	s.t.Helper()
	for partition := range int32(2) {
		var values [][]byte
		for origin := int(partition); origin < origins; origin += 2 {
			values = append(values, visitOf(origin, day, nil))
		}
		s.produce(partition, values...)
	}
}

// awaitVisits waits until every origin has a visit for each day, each counted once.
func (s *stream) awaitVisits(origins, days int) {
	s.t.Helper()
	last := at(days - 1).Format(`"last_visit": "2006-01-02T15:04:05+00:00"`)
	count := fmt.Sprintf(`"successive_visits": %d`, days)
	testenv.Becomes(s.t, "origins whose visits are all applied", origins, func() (done int) {
		for _, row := range s.stats() {
			if strings.Contains(row, last) {
				done++
				if !strings.Contains(row, count) {
					s.t.Fatalf("a visit was skipped or counted twice: %s", row)
				}
			}
		}
		return done
	})
}

// Brokers are killed and restarted while two members read. No record is skipped, and none is applied twice.
func testBrokersKilled(t *testing.T, c *throwaway.KafkaCluster) {
	const origins, days = 20, 24
	s := newStreamAt(t, c.Brokers, 2, 1)
	o := s.options()
	o.OnEOF = EOFContinue
	s.start(o)
	s.start(o)
	for day := range days {
		s.produceDay(origins, day)
		switch day {
		case 8, 16:
			node := day/8 - 1
			c.KillNode(node)
			if err := c.StartNode(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			testenv.Becomes(s.t, "every partition has a leader", nil, func() error {
				ends, err := s.admin.ListEndOffsets(s.t.Context(), s.topic)
				return errors.Join(err, ends.Error())
			})
		}
	}
	s.checkDays(origins, days)
}

// Any one of three brokers with replicated topics may die, even the group's coordinator. The client
// continues, skips no record and applies none twice.
func TestBrokerOfThreeDies(t *testing.T) {
	t.Parallel()
	const origins, days = 20, 20
	dead := 0
	c := testenv.KafkaCluster(t, 3, nil)
	s := newStreamAt(t, c.Brokers, 2, 3)
	o := s.options()
	o.OnEOF = EOFContinue
	s.start(o)
	s.start(o)
	for day := range days {
		s.produceDay(origins, day)
		switch day {
		case days / 4, days * 3 / 4: // the coordinator, by then another broker
			dead = int(s.admin.FindGroupCoordinators(t.Context(), s.prefix)[s.prefix].NodeID) - 1
			c.KillNode(dead)
		case days / 2:
			if err := c.StartNode(t.Context(), dead); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.checkDays(origins, days)
}
