package main

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// The dashboard is a command, and a part of rpc-serve if the configuration says so, where only its users may read it if
// calls need credentials. These open neither. Pages that are open with live updates hold up no stop.
func TestDashboard(t *testing.T) {
	t.Parallel()
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {token: t0ken}\ndashboard: {in_rpc_serve: true, users: [{name: script, token_sha256: %s, roles: [view]}]}\n", testenv.Database(t), sha256Of("ours")))
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, c := range []struct {
		args      []string
		path      string
		strangers int
	}{
		{[]string{"dashboard", "--port", "0"}, "/", 200},
		{[]string{"rpc-serve", "--host", "127.0.0.1", "--port", "0"}, "/dashboard/", 401}, // no user has a password
	} {
		t.Run(c.args[0], func(t *testing.T) {
			t.Parallel()
			p := start(t, append([]string{"-C", config}, c.args...)...)
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
					return get(accept, authorization) // a page says so that took longer than five seconds
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
