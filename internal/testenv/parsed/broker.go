// Package parsed parses texts that testenv gives tests. It is separate, as tests of the parsers' dependencies use
// testenv.
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
