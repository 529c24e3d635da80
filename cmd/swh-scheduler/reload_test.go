package main

import (
	"os"
	"syscall"
	"testing"
)

// On SIGHUP a daemon takes up its changed configuration, and goes on.
func TestReloadOnSIGHUP(t *testing.T) {
	t.Parallel()
	text := services(t)
	path := configFile(t, text)
	p := startWith(t, []string{ownFile}, "-C", path, "start-runner", "-p", "1")
	p.logs(t, "msg=started")
	if err := os.WriteFile(path, []byte(text+"lost_after: {default: 2 days}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.logs(t, "changed=[lost_after.default]")
	p.stop(t, syscall.SIGTERM)
}
