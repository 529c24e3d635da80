package journal

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/youmark/pkcs8"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// consume reports for each configuration whether librdkafka accepts it for a consumer.
const consume = `
import json, sys
from confluent_kafka import Consumer
def made(settings):
    try:
        Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **settings}).close()
    except Exception as e:
        return False
    return True
print(json.dumps({name: made(s) for name, s in json.load(sys.stdin).items()}))
`

// secret is in the values of all settings that may be secret.
const secret = "s3cret-s3cret"

// The client accepts and refuses settings as librdkafka does, or is stricter for a stated reason. An error
// names the wrong setting and contains no password or key.
func TestSettingsAgreeWithLibrdkafka(t *testing.T) {
	t.Parallel()
	authority := testenv.Authority(t)
	cert, other := authority.Issue(t, "client"), authority.Issue(t, "other")
	encrypted, err := pkcs8.MarshalPrivateKey(cert.PrivateKey, []byte(secret), nil)
	if err != nil {
		t.Fatal(err)
	}
	locked := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: encrypted}))
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("authorities/sub/x", "")
	file("authorities/README", "none")
	file("authorities/ca.pem", authority.PEM)
	if err := os.Symlink("nowhere", filepath.Join(dir, "authorities", "dangling")); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, otherKey := file("cert.pem", cert.PEM), file("key.pem", cert.KeyPEM), file("other.pem", other.KeyPEM)
	both, bothLocked, lockedFile := file("both.pem", cert.PEM+cert.KeyPEM), file("locked.pem", cert.PEM+locked), file("encrypted.pem", locked)

	type settings map[string]string
	with := func(base settings, more ...string) settings {
		m := maps.Clone(base)
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	without := func(base settings, name string) settings {
		m := maps.Clone(base)
		delete(m, name)
		return m
	}
	sasl := settings{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": secret}
	tls := settings{"security.protocol": "SSL"}
	pair := with(tls, "ssl.certificate.location", certFile, "ssl.key.location", keyFile)

	cases := map[string]struct {
		settings settings
		wrong    string // the setting that the error names; "" for none
		differs  string // the reason why librdkafka decides otherwise
	}{
		"PLAIN":                       {settings: sasl},
		"in lower case":               {settings: with(sasl, "security.protocol", "sasl_plaintext")},
		"with spaces":                 {settings: with(sasl, "security.protocol", " SASL_PLAINTEXT", "sasl.mechanism", " PLAIN")},
		"no protocol":                 {settings: with(sasl, "security.protocol", ""), wrong: "security.protocol"},
		"an odd protocol":             {settings: with(sasl, "security.protocol", "sasl-ssl"), wrong: "security.protocol"},
		"a mechanism in lower case":   {settings: with(sasl, "sasl.mechanism", "scram-sha-256"), differs: "librdkafka knows capitals only; the meaning is clear"},
		"two mechanisms":              {settings: with(sasl, "sasl.mechanisms", "SCRAM-SHA-256"), wrong: "sasl.mechanisms", differs: "librdkafka takes the later in the file"},
		"the same mechanism twice":    {settings: with(sasl, "sasl.mechanisms", "PLAIN")},
		"an empty second mechanism":   {settings: with(sasl, "sasl.mechanisms", ""), differs: "the other one is meant"},
		"a list of mechanisms":        {settings: with(sasl, "sasl.mechanism", "PLAIN,SCRAM-SHA-256"), wrong: "sasl.mechanism"},
		"SCRAM-SHA-1":                 {settings: with(sasl, "sasl.mechanism", "SCRAM-SHA-1"), wrong: "sasl.mechanism", differs: "Kafka has no such mechanism"},
		"EXTERNAL":                    {settings: with(sasl, "sasl.mechanism", "EXTERNAL"), wrong: "sasl.mechanism"},
		"Kerberos":                    {settings: with(sasl, "sasl.mechanism", "GSSAPI"), wrong: "sasl.mechanism"},
		"Kerberos by default":         {settings: without(sasl, "sasl.mechanism"), wrong: "sasl.mechanism"},
		"no user":                     {settings: without(sasl, "sasl.username"), wrong: "sasl.username"},
		"no password":                 {settings: without(sasl, "sasl.password"), wrong: "sasl.password"},
		"an empty password":           {settings: with(sasl, "sasl.password", ""), wrong: "sasl.password"},
		"TLS":                         {settings: tls},
		"SASL over TLS":               {settings: with(sasl, "security.protocol", "SASL_SSL")},
		"a check of names in capital": {settings: with(tls, "ssl.endpoint.identification.algorithm", "HTTPS")},
		"no check of names":           {settings: with(tls, "ssl.endpoint.identification.algorithm", "None")},
		"an empty check of names":     {settings: with(tls, "ssl.endpoint.identification.algorithm", ""), wrong: "ssl.endpoint.identification.algorithm"},
		"an odd check of names, and nothing checked": {settings: with(tls, "enable.ssl.certificate.verification", "false", "ssl.endpoint.identification.algorithm", "maybe"),
			wrong: "ssl.endpoint.identification.algorithm"},
		"an odd check of names, without TLS": {settings: settings{"ssl.endpoint.identification.algorithm": "maybe"}, wrong: "ssl.endpoint.identification.algorithm"},
		"no truth":                           {settings: with(tls, "enable.ssl.certificate.verification", "yes"), wrong: "enable.ssl.certificate.verification"},

		"authorities in a directory":          {settings: with(tls, "ssl.ca.location", filepath.Join(dir, "authorities"))},
		"the system's directory":              {settings: with(tls, "ssl.ca.location", "/etc/ssl/certs")},
		"a directory without any":             {settings: with(tls, "ssl.ca.location", filepath.Join(dir, "authorities", "sub")), wrong: "ssl.ca.location", differs: "no broker would be trusted"},
		"the system's":                        {settings: with(tls, "ssl.ca.location", "probe")},
		"authorities of both":                 {settings: with(tls, "ssl.ca.location", certFile, "ssl.ca.pem", authority.PEM)},
		"authorities that are not there":      {settings: with(tls, "ssl.ca.location", "/does/not/exist"), wrong: "ssl.ca.location"},
		"an empty file":                       {settings: with(tls, "ssl.ca.location", file("empty", "")), wrong: "ssl.ca.location"},
		"half an authority":                   {settings: with(tls, "ssl.ca.location", file("half", authority.PEM[:200])), wrong: "ssl.ca.location"},
		"one authority and a half":            {settings: with(tls, "ssl.ca.location", file("more", authority.PEM+authority.PEM[:200])), wrong: "ssl.ca.location"},
		"a broken one after a good one":       {settings: with(tls, "ssl.ca.pem", authority.PEM+strings.Replace(authority.PEM, "MII", "AAA", 1)), wrong: "ssl.ca.pem", differs: "its brokers would not be trusted"},
		"a key as authority":                  {settings: with(tls, "ssl.ca.location", keyFile), wrong: "ssl.ca.location"},
		"an authority without line ends":      {settings: with(tls, "ssl.ca.pem", strings.ReplaceAll(authority.PEM, "\n", `\n`)), wrong: "ssl.ca.pem"},
		"an authority's text as a file":       {settings: with(tls, "ssl.ca.location", authority.PEM), wrong: "ssl.ca.location"},
		"a key's text as a file":              {settings: with(pair, "ssl.key.location", "-----BEGIN PRIVATE KEY-----\n"+secret), wrong: "ssl.key.location"},
		"a pair":                              {settings: pair},
		"a pair in one file":                  {settings: with(pair, "ssl.certificate.location", both, "ssl.key.location", both)},
		"a certificate alone":                 {settings: without(pair, "ssl.key.location"), wrong: "ssl.certificate.location", differs: "the broker would get no certificate"},
		"a key alone":                         {settings: without(pair, "ssl.certificate.location"), wrong: "ssl.key.location"},
		"the key of another":                  {settings: with(pair, "ssl.key.location", otherKey), wrong: "ssl.certificate.location"},
		"a password of a key that needs none": {settings: with(pair, "ssl.key.password", secret)},
		"an encrypted key":                    {settings: with(pair, "ssl.key.location", lockedFile, "ssl.key.password", secret)},
		"an encrypted key in one file":        {settings: with(pair, "ssl.certificate.location", bothLocked, "ssl.key.location", bothLocked, "ssl.key.password", secret)},
		"an encrypted key, a wrong password":  {settings: with(pair, "ssl.key.location", bothLocked, "ssl.key.password", secret+"?"), wrong: "ssl.key.password"},
		"an encrypted key without password":   {settings: with(pair, "ssl.key.location", lockedFile), wrong: "ssl.key.password"},
		"TLS's settings without TLS":          {settings: settings{"ssl.ca.location": "/does/not/exist"}},

		"a session":                          {settings: settings{"session.timeout.ms": " 6000"}},
		"a session of days":                  {settings: settings{"session.timeout.ms": "3600001"}, wrong: "session.timeout.ms"},
		"a session beyond 32 bits":           {settings: settings{"session.timeout.ms": "99999999999"}, wrong: "session.timeout.ms"},
		"a session of no time":               {settings: settings{"session.timeout.ms": "0"}, wrong: "session.timeout.ms"},
		"a negative session":                 {settings: settings{"session.timeout.ms": "-1"}, wrong: "session.timeout.ms"},
		"a session longer than polls":        {settings: settings{"session.timeout.ms": "600000", "max.poll.interval.ms": "300000"}, wrong: "max.poll.interval.ms"},
		"heartbeats longer than a session":   {settings: settings{"session.timeout.ms": "6000", "heartbeat.interval.ms": "60000"}, wrong: "heartbeat.interval.ms", differs: "each session would end"},
		"heartbeats longer than the default": {settings: settings{"heartbeat.interval.ms": "60000"}, wrong: "heartbeat.interval.ms", differs: "each session would end"},
		"fetches of nothing":                 {settings: settings{"fetch.min.bytes": "0"}, wrong: "fetch.min.bytes"},
		"partitions of nothing":              {settings: settings{"fetch.message.max.bytes": "0"}, wrong: "fetch.message.max.bytes"},
		"two sizes of partitions":            {settings: settings{"fetch.message.max.bytes": "100000", "max.partition.fetch.bytes": "200000"}, wrong: "max.partition.fetch.bytes", differs: "librdkafka takes the later in the file"},
		"large fetches":                      {settings: settings{"fetch.max.bytes": "2147483647"}, wrong: "fetch.max.bytes"},
		"fetches larger than answers":        {settings: settings{"fetch.max.bytes": "200000000"}, wrong: "fetch.max.bytes", differs: "librdkafka makes room for answers by itself"},
		"answers smaller than fetches":       {settings: settings{"fetch.max.bytes": "2000000", "receive.message.max.bytes": "2000000"}, wrong: "receive.message.max.bytes"},
		"answers of nothing":                 {settings: settings{"receive.message.max.bytes": "0"}, wrong: "receive.message.max.bytes"},
		"small answers":                      {settings: settings{"receive.message.max.bytes": "2000"}, wrong: "receive.message.max.bytes"},
		"a long wait":                        {settings: settings{"fetch.wait.max.ms": "300001"}, wrong: "fetch.wait.max.ms"},
		"no time to connect":                 {settings: settings{"socket.connection.setup.timeout.ms": "1"}, wrong: "socket.connection.setup.timeout.ms"},
		"isolation in capitals":              {settings: settings{"isolation.level": "READ_COMMITTED"}},
		"no isolation":                       {settings: settings{"isolation.level": ""}, wrong: "isolation.level"},
		"a long name":                        {settings: settings{"client.id": strings.Repeat("x", 257)}, wrong: "client.id", differs: "the Kafka library takes no longer one"},
	}

	all := map[string]settings{}
	for name, c := range cases {
		all[name] = c.settings
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Python(t), "-c", consume)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			_, _, err := New(Options{Brokers: []string{"127.0.0.1:1"}, GroupID: "g", Store: (*db.Store)(nil), ConsumerSettings: c.settings, Log: testLog(t)})
			wrong, ok := errors.AsType[*SettingError](err)
			switch {
			case err == nil && c.wrong != "":
				t.Errorf("it is taken, want an error of %s", c.wrong)
			case err != nil && (!ok || wrong.Setting != c.wrong):
				t.Errorf("%v, want an error of %q", err, c.wrong)
			case err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "-----")):
				t.Errorf("the error holds a secret: %v", err)
			}
			if differs := (err == nil) != made[name]; differs != (c.differs != "") {
				t.Errorf("we: %v; librdkafka takes it: %t; differs because: %q", err, made[name], c.differs)
			}
		})
	}
}
