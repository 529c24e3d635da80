package journal

import (
	"fmt"
	"strings"
	"testing"
)

// No setting makes translate panic. No error or warning shows a value, which may be a password, even under
// a misspelt name.
func FuzzSettings(f *testing.F) {
	f.Add("sasl.pasword", "")
	f.Add("ssl.key.pem", "-----BEGIN PRIVATE KEY-----\n")
	f.Add("ssl.ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
	for name := range settingTable {
		f.Add(name, "1")
		f.Add(name, "true")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if strings.Contains(name, "location") {
			return // a file of this machine
		}
		const secret = "\"s3cret-s3cret"
		for _, settings := range []map[string]string{
			{name: value},
			{name: value + secret},
			{"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": secret, name: value + secret},
		} {
			opts, warnings, err := translate(settings)
			if said := fmt.Sprint(warnings, err); strings.Contains(said, "s3cret-s3cret") {
				t.Errorf("%q shows its value: %s", name, said)
			}
			if err != nil && opts != nil {
				t.Errorf("%q: options and %v", name, err)
			}
		}
	})
}
