package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/throwaway"
)

var (
	operationWords = regexp.MustCompile(`--operation (\w+)`)
	aclWords       = regexp.MustCompile(`^kafka-acls --bootstrap-server \S+ --add --allow-principal '(User:[^']*)' .*--(topic|group) '([^']*)'$`)
)

// grant applies a statement of kafka-acls.
func grant(t testing.TB, admin *kadm.Client, statement string) {
	t.Helper()
	m := aclWords.FindStringSubmatch(statement)
	if m == nil {
		t.Fatal(statement)
	}
	var operations []kadm.ACLOperation
	for _, o := range operationWords.FindAllStringSubmatch(statement, -1) {
		operation, err := kmsg.ParseACLOperation(o[1])
		if err != nil {
			t.Fatal(err)
		}
		operations = append(operations, operation)
	}
	allow(t, admin, m[1], m[2], m[3], operations...)
}

// allow writes access control lists, after which only their users may do these operations.
func allow(t testing.TB, admin *kadm.Client, principal, kind, name string, operations ...kadm.ACLOperation) {
	t.Helper()
	acls := kadm.NewACLs().Allow(principal).AllowHosts().Operations(operations...).ResourcePatternType(kadm.ACLPatternLiteral)
	switch kind {
	case "topic":
		acls = acls.Topics(name)
	case "group":
		acls = acls.Groups(name)
	default:
		acls = acls.Clusters()
	}
	created, err := admin.CreateACLs(t.Context(), acls)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range created {
		if c.Err != nil {
			t.Fatal(c.Err, c.ErrMessage)
		}
	}
	t.Cleanup(func() {
		if _, err := admin.DeleteACLs(context.WithoutCancel(t.Context()), acls); err != nil {
			t.Error(err)
		}
	})
}

// On a broker with an authorizer, the check reports nothing with the rights of docs/how-to/secure.md. It
// reports each missing right with the statement that grants it, as the daemon does. The check joins no
// group.
func testRights(t *testing.T, c *throwaway.KafkaCluster) {
	const nobody = "User:nobody"
	for name, tc := range map[string]struct {
		deny  func(s *stream)
		want  string // with TOPIC and GROUP
		lacks int
	}{
		"all":      {func(*stream) {}, "", 0},
		"no topic": {func(s *stream) { allow(s.t, s.admin, nobody, "topic", s.topic, kadm.OpRead) }, "Read, Describe on topic TOPIC", 1},
		"describes the topic": {func(s *stream) {
			allow(s.t, s.admin, "User:journal", "topic", s.topic, kadm.OpDescribe)
		}, "Read, Describe on topic TOPIC", 1},
		"no group": {func(s *stream) { allow(s.t, s.admin, nobody, "group", s.prefix, kadm.OpRead) }, "Read on group GROUP", 1},
		"describes the group": {func(s *stream) {
			allow(s.t, s.admin, "User:journal", "group", s.prefix, kadm.OpDescribe)
		}, "Read on group GROUP", 1},
		"neither": {func(s *stream) {
			allow(s.t, s.admin, nobody, "topic", s.topic, kadm.OpRead)
			allow(s.t, s.admin, nobody, "group", s.prefix, kadm.OpRead)
		}, "Read, Describe on topic TOPIC; Read on group GROUP", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStreamAt(t, c.Brokers, 1, 1)
			s.produce(0, visitsOf(10, 0)...)
			o := s.options()
			o.Brokers = c.SASLBrokers
			o.ConsumerSettings = map[string]string{
				"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "journal", "sasl.password": "plain-password",
			}
			check := func() error {
				client, _, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.Check(t.Context())
				return err
			}
			tc.deny(s)
			var lacks *RightsError
			testenv.Becomes(t, "how much is lacking", tc.lacks, func() int {
				err, ok := check(), false
				if lacks, ok = errors.AsType[*RightsError](err); err != nil && !ok {
					t.Fatal(err)
				}
				if lacks == nil {
					return 0
				}
				return len(lacks.Missing)
			})
			if lacks != nil {
				want := "its user User:journal lacks rights: " + strings.NewReplacer("TOPIC", s.topic, "GROUP", s.prefix).Replace(tc.want) + "; an administrator of Kafka grants them by: kafka-acls "
				if text := lacks.Error(); !strings.HasPrefix(text, want) || strings.Contains(text, "plain-password") {
					t.Errorf("%s, want %s", text, want)
				}
				var log testenv.Buffer
				denied := o
				denied.Log = slog.New(slog.NewTextHandler(&log, nil))
				stop := s.start(denied)
				testenv.Shows(t, "AUTHORIZATION_FAILED", log.String)
				testenv.Shows(t, lacks.Statements()[0], log.String)
				stop()
				for _, statement := range lacks.Statements() {
					grant(t, s.admin, statement)
				}
				testenv.Becomes(t, "what is lacking", nil, check)
			}
			if described, err := s.admin.DescribeGroups(t.Context(), s.prefix); err != nil || lacks == nil && len(described[s.prefix].Members) > 0 {
				t.Error(err, described)
			}
			if processed := s.run(o); processed != 10 {
				t.Errorf("%d records", processed)
			}
		})
	}
	t.Run("makes the topic", func(t *testing.T) {
		s := newStreamAt(t, c.Brokers, 1, 1)
		o := s.options()
		o.Brokers, o.Prefix, o.CreateTopics = c.SASLBrokers, s.prefix+".other", true
		o.ConsumerSettings = map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "journal", "sasl.password": "plain-password",
		}
		allow(t, s.admin, nobody, "cluster", "", kadm.OpCreate)
		allow(t, s.admin, "User:journal", "topic", o.Prefix+"."+objectType, kadm.OpRead, kadm.OpDescribe)
		client, _, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Becomes(t, "what is lacking", "Create, Read, Describe", func() string {
			_, err := client.Check(t.Context())
			lacks, ok := errors.AsType[*RightsError](err)
			if !ok {
				return fmt.Sprint(err)
			}
			return strings.Join(lacks.Missing[0].Operations, ", ")
		})
		if topics, err := s.admin.ListTopics(t.Context()); err != nil || slices.ContainsFunc(slices.Collect(maps.Keys(topics)), func(topic string) bool { return strings.HasPrefix(topic, o.Prefix) }) {
			t.Error(err, topics)
		}
	})
}
