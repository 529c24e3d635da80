package config

import (
	"strings"
	"testing"
)

// session_kwargs of the Python scheduler also set the credentials and certificates of our RPC client.
func TestSessionKwargs(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]SessionKwargs{
		"{cert: client.pem, verify: ca.pem}":              {Cert: "client.pem", Key: "client.pem", Verify: "ca.pem"},
		"{cert: [client.crt, client.key], verify: true}":  {Cert: "client.crt", Key: "client.key"},
		"{auth: [swh, s3cret]}":                           {Authorization: "Basic c3doOnMzY3JldA=="},
		"{headers: {authorization: Bearer s3cret}}":       {Authorization: "Bearer s3cret"},
		"{proxies: {https: 'http://proxy.example:3128'}}": {},
	} {
		c, warnings, err := parse("F", []byte("scheduler: {cls: remote, url: 'https://x/', session_kwargs: "+given+"}"))
		if err != nil || len(warnings) > 0 || c.Scheduler.SessionKwargs != want {
			t.Errorf("%s: %v %v", given, err, warnings)
		}
	}
	for given, want := range map[string]string{
		"{cert: [a, b, c]}": "session_kwargs.cert must be a file",
		"{cert: []}":        "session_kwargs.cert must be a file",
		"{verify: false}":   "session_kwargs.verify can't be false",
		"{auth: s3cret}":    "session_kwargs.auth must be a list of a user and a password",
		"{auth: [a, s3cret], headers: {Authorization: s3cret}}": "has credentials, and so has auth or headers",
		"s3cret": "session_kwargs must be",
	} {
		_, _, err := parse("F", []byte("scheduler: {cls: remote, url: 'https://x/', session_kwargs: "+given+"}"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") && given != "s3cret" {
			t.Errorf("%s: %v", given, err)
		}
	}
	for given, want := range map[string]string{
		"{cls: remote, url: 'https://a:s3cret@x/', session_kwargs: {auth: [a, b]}}":           "has credentials in url and in session_kwargs",
		"{cls: remote, url: 'https://x/', session_kwargs: {headers: {X-Forwarded-For: '1'}}}": "",
	} {
		_, warnings, err := parse("F", []byte("scheduler: "+given))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) || want == "" && len(warnings) != 1 {
			t.Errorf("%s: %v %v", given, err, warnings)
		}
	}
}
