package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// The dashboard is a command, and part of rpc-serve if the configuration enables it. If calls need credentials, so does
// the dashboard, and it accepts only its own users' credentials. Open pages with live updates don't delay a stop.
func TestDashboard(t *testing.T) {
	t.Parallel()
	config := func(rpcServe string) string {
		return configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {%s}\ndashboard: {in_rpc_serve: true, users: [{name: script, token_sha256: %s, roles: [view]}]}\n", testenv.Database(t), rpcServe, sha256Of("ours")))
	}
	single, clients := config("token: t0ken"), config("clients: [{name: a, token_sha256: "+sha256Of("t0ken")+", roles: [operator]}]")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, c := range []struct {
		name      string
		config    string
		args      []string
		path      string
		strangers int
	}{
		{"dashboard", single, []string{"dashboard", "--port", "0"}, "/", 200},
		{"rpc-serve", single, []string{"rpc-serve", "--host", "127.0.0.1", "--port", "0"}, "/dashboard/", 401}, // no user has a password
		{"rpc-serve with clients", clients, []string{"rpc-serve", "--host", "127.0.0.1", "--port", "0"}, "/dashboard/", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, append([]string{"-C", c.config}, c.args...)...)
			p.logs(t, "listening")
			address := regexp.MustCompile(`listening"?\W+address\W+([\d.:]+)`).FindStringSubmatch(p.log())
			if address == nil {
				t.Fatalf("no address in the log:\n%s", p.log())
			}
			var get func(accept, authorization string) *http.Response
			late := time.Now().Add(patience)
			get = func(accept, authorization string) *http.Response {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address[1]+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Accept", accept)
				if authorization != "" {
					r.Header.Set("Authorization", authorization)
				}
				answer, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { answer.Body.Close() })
				if answer.StatusCode == http.StatusServiceUnavailable && time.Now().Before(late) {
					return get(accept, authorization) // the page says that a part took longer than five seconds
				}
				return answer
			}
			if status := get("text/html", "").StatusCode; status != c.strangers {
				t.Errorf("a stranger is answered %d", status)
			}
			if status := get("application/json", "Bearer t0ken").StatusCode; status != http.StatusUnauthorized {
				t.Errorf("who has the token of calls is answered %d", status)
			}
			if status := get("application/json", "Bearer ours").StatusCode; status != http.StatusOK {
				t.Errorf("a user is answered %d", status)
			}
			authorization := ""
			if c.strangers != 200 {
				authorization = "Bearer ours"
			}
			if stream := bufio.NewScanner(get("text/event-stream", authorization).Body); !stream.Scan() || stream.Text() != "retry: 5000" {
				t.Errorf("the stream begins with %q", stream.Text())
			}
			p.stop(t, syscall.SIGTERM)
		})
	}
}

// The dashboard of an rpc-serve without clients is open to all. Once the file names clients, it requires a login.
func TestDashboardClosesWithTheCalls(t *testing.T) {
	t.Parallel()
	dsn, file := testenv.Database(t), configFile(t, "")
	write := func(rpcServe string) {
		t.Helper()
		text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {%s}\ndashboard: {in_rpc_serve: true}\n", dsn, rpcServe)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("open: true")
	p := startWith(t, []string{ownFile}, "-C", file, "rpc-serve", "--host", "127.0.0.1", "--port", "0")
	server := p.serverURL(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status := func() int {
		t.Helper()
		answer, err := client.Get(server + "/dashboard/audit")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("open: %d", got)
	}
	write("clients: [{name: a, token_sha256: " + sha256Of("a") + ", roles: [operator]}]")
	testenv.Becomes(t, "a stranger is answered", http.StatusUnauthorized, status)
	p.stop(t, syscall.SIGTERM)
}
