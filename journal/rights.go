package journal

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"swh-scheduler/internal/service"
)

// A RightsError lists the rights that the user lacks in Kafka. Its Statements grant them.
type RightsError struct {
	Principal string // in the form of kafka-acls
	Missing   []MissingRight
	broker    string // host:port
	err       error  // Kafka's error if it refused something; or nil
}

// MissingRight is a topic or a group with the operations that the user lacks.
type MissingRight struct {
	Kind       string // topic or group
	Name       string
	Operations []string // the operations that the client needs
}

func (e *RightsError) Error() string {
	var lacks []string
	for _, l := range e.Missing {
		lacks = append(lacks, fmt.Sprintf("%s on %s %s", strings.Join(l.Operations, ", "), l.Kind, l.Name))
	}
	text := fmt.Sprintf("its user %s lacks rights: %s; an administrator of Kafka grants them by: %s",
		e.Principal, strings.Join(lacks, "; "), strings.Join(e.Statements(), "; "))
	if e.err != nil {
		text = e.err.Error() + ": " + text
	}
	return text
}

func (e *RightsError) Unwrap() error { return e.err }

// Statements returns the commands that grant the rights.
func (e *RightsError) Statements() []string {
	statements := make([]string, len(e.Missing))
	for i, l := range e.Missing {
		words := []string{"kafka-acls --bootstrap-server", e.broker, "--add --allow-principal", service.ShellWord(e.Principal)}
		for _, operation := range l.Operations {
			words = append(words, "--operation", operation)
		}
		statements[i] = strings.Join(append(words, "--"+l.Kind, service.ShellWord(l.Name)), " ")
	}
	return statements
}

func (c *Client) rightsError(lacks []MissingRight) *RightsError {
	return &RightsError{Principal: principal(c.o.ConsumerSettings), Missing: lacks, broker: c.o.Brokers[0]}
}

func lackOfTopic(topic string) MissingRight {
	return MissingRight{"topic", topic, []string{"Read", "Describe"}}
}

// lacks returns the rights that the user lacks on the topic, which may be missing, and on the group. A
// broker without an authorizer allows all.
func (c *Client) lacks(ctx context.Context, client *kgo.Client, admin *kadm.Client) (lacks []MissingRight, err error) {
	found := false
	for _, topic := range c.candidates() {
		request := kmsg.NewPtrMetadataRequest()
		request.IncludeTopicAuthorizedOperations = true
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &topic
		request.Topics = append(request.Topics, asked)
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		for _, t := range answer.Topics {
			failed := kerr.ErrorForCode(t.ErrorCode)
			found = found || failed == nil
			// Brokers before 2.3 don't report the operations.
			mayNotRead := t.AuthorizedOperations != math.MinInt32 && !slices.Contains(kadm.DecodeACLOperations(t.AuthorizedOperations), kadm.OpRead)
			if errors.Is(failed, kerr.TopicAuthorizationFailed) || failed == nil && mayNotRead {
				lacks = append(lacks, lackOfTopic(topic))
				found = true // or may exist
			}
		}
		if found {
			break
		}
	}
	if topic := c.candidates()[0]; !found && c.o.CreateTopics {
		created, err := admin.ValidateCreateTopics(ctx, 1, 1, nil, topic)
		switch answer, on := created[topic]; {
		case errors.Is(err, kerr.TopicAuthorizationFailed), on && errors.Is(answer.Err, kerr.TopicAuthorizationFailed):
			lacks = append(lacks, MissingRight{"topic", topic, []string{"Create", "Read", "Describe"}})
		case err != nil:
			return nil, err
		}
	}
	// This heartbeat is of an unknown member: Kafka checks the rights before it refuses the member.
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID = c.o.GroupID, "swh-scheduler-check"
	answer, err := heartbeat.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	switch _, answered := errors.AsType[*kerr.Error](err); {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		lacks = append(lacks, MissingRight{"group", c.o.GroupID, []string{"Read"}})
	case err != nil && !answered:
		return nil, err
	}
	return lacks, nil
}

// refused returns a RightsError if Kafka refused a request for lack of rights. Otherwise it returns err.
func (c *Client) refused(err error, topic string) error {
	var lack MissingRight
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		lack = lackOfTopic(topic)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		lack = MissingRight{"group", c.o.GroupID, []string{"Read"}}
	default:
		return err
	}
	refused := c.rightsError([]MissingRight{lack})
	refused.err = err
	return refused
}

// principal returns the client's name on a broker with default settings, in the form of kafka-acls.
func principal(settings map[string]string) string {
	name := "ANONYMOUS"
	switch protocol := strings.ToLower(settings["security.protocol"]); {
	case strings.HasPrefix(protocol, "sasl"):
		name = settings["sasl.username"]
	case protocol == "ssl":
		text, err := inlineOrFile("ssl.certificate.location", settings["ssl.certificate.pem"], settings["ssl.certificate.location"])
		if block, _ := pem.Decode(text); err == nil && block != nil {
			if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
				name = certificate.Subject.String()
			}
		}
	}
	return "User:" + name
}
