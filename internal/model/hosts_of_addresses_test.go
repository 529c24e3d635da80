package model

import "testing"

// The host of a URL with an IPv6 address is the whole address: two addresses are two hosters.
func TestHostOfAnAddress(t *testing.T) {
	for url, want := range map[string]string{
		"https://[2001:db8::1]/a.git":            "[2001:db8::1]",
		"https://user@[2001:DB8::2]:8443/a.git":  "[2001:db8::2]",
		"https://192.0.2.1:3000/a.git":           "192.0.2.1",
		"https://user:pass@Forge.example:80/a/b": "forge.example",
	} {
		if got := HostOf(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
