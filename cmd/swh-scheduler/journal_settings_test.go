package main

import (
	"strings"
	"testing"
)

// An unusable consumer setting ends journal-client at once, with or without its database. The error has the file, the
// line and the key, and no password. config check prints the same.
func TestWrongConsumerSettings(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-s3cret"
	for settings, want := range map[string]string{
		"consumer_settings:\n    sasl.mechanism: " + secret + "\n    security.protocol: sasl_ssl":                                  ":5: journal.consumer_settings.sasl.mechanism can't be used",
		"consumer_settings:\n    security.protocol: ssl\n    ssl.key.location: \"-----BEGIN PRIVATE KEY-----\\n" + secret + "\"\n": ":6: journal.consumer_settings.ssl.key.location can't be used",
		"heartbeat.interval.ms: " + secret: ":4: journal.heartbeat.interval.ms can't be used",
	} {
		config := configFile(t, "journal:\n  brokers: [\"127.0.0.1:1\"]\n  group_id: g\n  "+settings+"\nscheduler: {cls: postgresql, db: host=/does/not/exist}\n")
		for _, command := range [][]string{{"journal-client"}, {"config", "check"}} {
			r := ours(t, append([]string{"-C", config}, command...)...)
			if said := r.stdout + r.stderr; r.code != 1 || !strings.Contains(said, config+want) {
				t.Errorf("%q with %s: exit code %d, want 1 and %q:\n%s", command, settings, r.code, want, said)
			} else if strings.Contains(said, secret) {
				t.Errorf("%q shows a secret:\n%s", command, said)
			}
		}
	}
}
