package journal

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/youmark/pkcs8"

	"swh-scheduler/internal/testenv"
)

// These are the treatments of settings from users' files.
func TestConsumerSettings(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	saslSSL := func(more ...string) map[string]string {
		m := map[string]string{"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "user", "sasl.password": secret}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		name     string
		settings map[string]string
		warnings []string // parts of them, in order
		err      string   // part of it
	}{
		{name: "none"},
		{name: "as in production", settings: saslSSL(
			"message.max.bytes", "524288000", "fetch.wait.max.ms", "1000", "session.timeout.ms", "600000", "max.poll.interval.ms", "3600000",
			"queued.max.messages.kbytes", "1000", "debug", "consumer", "log_level", "7", "statistics.interval.ms", "1000")},
		{name: "PLAIN", settings: saslSSL("sasl.mechanism", "PLAIN")},
		{name: "the other name of the mechanism", settings: saslSSL("sasl.mechanism", "", "sasl.mechanisms", "SCRAM-SHA-256")},
		{name: "what the Python scheduler sets itself", settings: map[string]string{"auto.offset.reset": "x", "enable.auto.commit": "true", "group.id": "x", "bootstrap.servers": "x"}},
		{name: "fetch sizes", settings: map[string]string{"fetch.min.bytes": "1", "fetch.max.bytes": "1000000", "fetch.message.max.bytes": "100000", "receive.message.max.bytes": "100000000"}},
		{name: "strategies", settings: map[string]string{"partition.assignment.strategy": "roundrobin, range"}},
		{name: "the default of the offset store", settings: map[string]string{"enable.auto.offset.store": "True"}},
		{name: "an unknown one", settings: map[string]string{"fetch.mim.bytes": "1"}, warnings: []string{"fetch.mim.bytes"}},
		{name: "one that may be noticed", settings: map[string]string{"group.protocol": "consumer"}, warnings: []string{"group.protocol"}},
		{name: "a user without SASL", settings: map[string]string{"sasl.username": "user", "sasl.password": secret}, warnings: []string{"have no effect"}},

		{name: "Kerberos by default", settings: map[string]string{"security.protocol": "sasl_plaintext"}, err: "GSSAPI"},
		{name: "Kerberos by name", settings: saslSSL("sasl.mechanism", "GSSAPI"), err: "sasl.mechanism"},
		{name: "OAuth", settings: saslSSL("sasl.mechanism", "OAUTHBEARER"), err: "sasl.mechanism"},
		{name: "no password", settings: saslSSL("sasl.password", ""), err: "sasl.password"},
		{name: "an odd protocol", settings: map[string]string{"security.protocol": "tls"}, err: "security.protocol"},
		{name: "ciphers", settings: saslSSL("ssl.cipher.suites", "x"), err: "ssl.cipher.suites"},
		{name: "a revocation list", settings: saslSSL("ssl.crl.location", "/x"), err: "ssl.crl.location"},
		{name: "a keystore", settings: saslSSL("ssl.keystore.location", "/x"), err: "ssl.keystore.location"},
		{name: "an authority that is not there", settings: saslSSL("ssl.ca.location", "/does/not/exist"), err: "ssl.ca.location"},
		{name: "half a key pair", settings: saslSSL("ssl.certificate.pem", "x"), err: "ssl.key.location"},
		{name: "no time between heartbeats", settings: map[string]string{"heartbeat.interval.ms": "0"}, err: "heartbeat.interval.ms"},
		{name: "a session without time", settings: map[string]string{"session.timeout.ms": "0"}, err: "session.timeout.ms"},
		{name: "no time between polls", settings: map[string]string{"max.poll.interval.ms": "0"}, err: "max.poll.interval.ms"},
		{name: "no time to connect", settings: map[string]string{"socket.connection.setup.timeout.ms": "0"}, err: "socket.connection.setup.timeout.ms"},
		{name: "offsets that are not stored", settings: map[string]string{"enable.auto.offset.store": "false"}, err: "enable.auto.offset.store"},
		{name: "an odd isolation", settings: map[string]string{"isolation.level": "serializable"}, err: "isolation.level"},
		{name: "a strategy that keeps partitions", settings: map[string]string{"partition.assignment.strategy": "cooperative-sticky"}, err: "partition.assignment.strategy"},
		{name: "no number", settings: map[string]string{"session.timeout.ms": "soon"}, err: "session.timeout.ms"},
		{name: "no truth", settings: map[string]string{"enable.ssl.certificate.verification": "maybe"}, err: "enable.ssl.certificate.verification"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			opts, warnings, err := translate(tc.settings)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want an error with %q", err, tc.err)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := kgo.ValidateOpts(append(opts, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("topic"))...); err != nil {
				t.Errorf("the options do not fit together: %v", err)
			}
			if len(warnings) != len(tc.warnings) {
				t.Fatalf("warnings %q, want %d", warnings, len(tc.warnings))
			}
			for i, want := range tc.warnings {
				if !strings.Contains(warnings[i], want) {
					t.Errorf("warning %q does not say %q", warnings[i], want)
				}
			}
		})
	}
}

// Timeouts that depend on each other follow the Python scheduler's rules.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		c                connection
		session, maxPoll time.Duration
	}{
		{"librdkafka's", connection{}, 45 * time.Second, 5 * time.Minute},
		{"a static member", connection{instanceID: "one"}, 10 * time.Minute, 15 * time.Minute},
		{"a session", connection{session: 20 * time.Second}, 20 * time.Second, 30 * time.Second},
		{"both", connection{session: 20 * time.Second, maxPoll: time.Hour, instanceID: "one"}, 20 * time.Second, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.c.timeouts()
			if tc.c.session != tc.session || tc.c.maxPoll != tc.maxPoll {
				t.Errorf("session %s, between polls %s; want %s and %s", tc.c.session, tc.c.maxPoll, tc.session, tc.maxPoll)
			}
		})
	}
}

// On a TLS broker that requires a client certificate, the client uses the files and the key's password. It
// refuses a broker with another name or authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.produce(0, visitsOf(3, 0)...)
	authority := testenv.Authority(t)
	address := tlsProxy(t, s.brokers[0], authority)
	cert := authority.Issue(t, "client")
	encrypted, err := pkcs8.MarshalPrivateKey(cert.PrivateKey, []byte("open sesame"), nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"security.protocol":        "SSL",
		"ssl.ca.location":          testenv.File(t, "ca.pem", authority.PEM),
		"ssl.certificate.location": testenv.File(t, "cert.pem", cert.PEM),
		"ssl.key.location":         testenv.File(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: encrypted}))),
		"ssl.key.password":         "open sesame",
	}
	with := func(more ...string) map[string]string {
		m := make(map[string]string)
		for name, value := range settings {
			m[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	stranger := testenv.Authority(t).PEM
	for _, tc := range []struct {
		name     string
		broker   string
		settings map[string]string
		works    bool
	}{
		{"all as it should be", "localhost:" + port, with(), true},
		{"a broker of another name", "127.0.0.1:" + port, with(), false},
		{"another name, which is not looked at", "127.0.0.1:" + port, with("ssl.endpoint.identification.algorithm", "none"), true},
		{"another authority", "localhost:" + port, with("ssl.ca.pem", stranger), false},
		{"another authority, the name not looked at", "localhost:" + port, with("ssl.ca.pem", stranger, "ssl.endpoint.identification.algorithm", "none"), false},
		{"another authority, nothing looked at", "localhost:" + port, with("ssl.ca.pem", stranger, "enable.ssl.certificate.verification", "false"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			opts, _, err := translate(tc.settings)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(tc.broker))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.Ping(t.Context()); (err == nil) != tc.works {
				t.Errorf("ping: %v, should work: %t", err, tc.works)
			}
		})
	}
	if _, _, err := translate(with("ssl.key.password", "guess")); err == nil || !strings.Contains(err.Error(), "ssl.key.password") || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password of the key: %v", err)
	}
}

// tlsProxy is the broker behind TLS, as "localhost", for clients with certificates of the authority.
func tlsProxy(t *testing.T, broker string, authority testenv.Pair) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "localhost").Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var proxies sync.WaitGroup
	proxies.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			proxies.Go(func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", broker)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() {
					_, _ = io.Copy(server, client)
					_ = server.Close()
				}()
				_, _ = io.Copy(client, server)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		proxies.Wait()
	})
	return listener.Addr().String()
}
