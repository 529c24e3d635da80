package refusals

import (
	"testing"
	"time"
)

// An error names the hoster of an IPv6 address with and without brackets.
func TestRefusalOfAnAddress(t *testing.T) {
	const host = "[2001:db8::1]"
	for _, text := range []string{
		"HTTPSConnectionPool(host='2001:db8::1', port=443): Max retries exceeded: Connection refused",
		"unexpected http resp 429 for https://[2001:db8::1]/a.git/info/refs",
	} {
		if Of(text, host, time.Now()).Kind == "" {
			t.Errorf("%s: no refusal", text)
		}
	}
	if r := Of("unexpected http resp 429 for https://[2001:db8::2]/a.git/info/refs", host, time.Now()); r.Kind != "" {
		t.Errorf("the error of another address is a refusal: %v", r)
	}
}
