package config

import "testing"

// A proxy that only passes the addresses of its clients, as one before webhooks, needs no header with users. It is no
// way to log in.
func TestProxyWithoutUsers(t *testing.T) {
	t.Parallel()
	c, _, err := Load(write(t, "scheduler: {cls: postgresql, db: dbname=scheduler}\ndashboard: {proxy: {addresses: [127.0.0.1]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Dashboard.Proxy.Addresses) != 1 || c.Dashboard.HasLogins() {
		t.Errorf("%+v", c.Dashboard)
	}
}
