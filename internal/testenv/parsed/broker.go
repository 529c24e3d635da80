// Package parsed parses what testenv gives tests as text. It is not part of testenv, which
// tests of what the parsers import use.
package parsed

import (
	"testing"

	"swh-scheduler/celery"
)

// Broker parses the URL of a broker.
func Broker(t testing.TB, url string) celery.Broker {
	t.Helper()
	broker, err := celery.ParseBroker(url, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return broker
}
