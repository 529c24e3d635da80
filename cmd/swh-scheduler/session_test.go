package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"swh-scheduler/internal/testenv"
)

// hashOf runs hash-password with an input.
func hashOf(t *testing.T, input string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "config", "hash-password")
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the result has the exit code
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// hash-password reads a password from standard input, never from an argument. Its hash matches that password.
func TestHashPassword(t *testing.T) {
	t.Parallel()
	for input, password := range map[string]string{"correct horse\n": "correct horse", "pässwörd\r\nmore\n": "pässwörd", "without-end": "without-end"} {
		r := hashOf(t, input)
		if r.code != 0 || r.stderr != "" || bcrypt.CompareHashAndPassword([]byte(strings.TrimSuffix(r.stdout, "\n")), []byte(password)) != nil {
			t.Errorf("%q: %+v", input, r)
		}
	}
	for input, want := range map[string]string{"": "shorter than 8 characters", "s3cret\n": "shorter than 8 characters", strings.Repeat("s3cret", 13): "longer than 72 bytes"} {
		if r := hashOf(t, input); r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%q: %+v", input, r)
		}
	}
	if r := ours(t, "config", "hash-password", "s3cret-argument"); r.code != 2 || strings.Contains(r.stdout+r.stderr, "$2a$") {
		t.Errorf("an argument: %+v", r)
	}
}

// A user whose hash the program made can log in to the command dashboard, and rpc-serve has the same session. An
// operator can list the session and end it for both.
func TestSessionsOfPrograms(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\nrpc_serve: {token: t0ken}\ndashboard: {require_login: true, in_rpc_serve: true, users: [{name: ann, password_hash: %q, roles: [tasks]}]}\n",
		testenv.Database(t), strings.TrimSpace(hashOf(t, "correct horse\n").stdout))
	config := configFile(t, text)
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var bases []string
	for path, args := range map[string][]string{"": {"dashboard", "--port", "0"}, "/dashboard": {"rpc-serve", "--host", "127.0.0.1", "--port", "0"}} {
		p := start(t, append([]string{"-C", config}, args...)...)
		defer p.stop(t, syscall.SIGTERM)
		p.logs(t, "listening")
		address := regexp.MustCompile(`listening"?\W+address\W+([\d.:]+)`).FindStringSubmatch(p.log())
		if address == nil {
			t.Fatalf("no address in the log:\n%s", p.log())
		}
		bases = append(bases, "http://"+address[1]+path)
	}
	ask := func(method, address, cookie string, form url.Values) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer
	}
	is := func(cookie string, status int) {
		t.Helper()
		for _, base := range bases {
			if answer := ask(http.MethodGet, base+"/audit", cookie, nil); answer.StatusCode != status {
				t.Errorf("%s: %s, want %d", base, answer.Status, status)
			}
		}
	}
	logIn := func(password string) *http.Response {
		t.Helper()
		return ask(http.MethodPost, bases[0]+"/login", "", url.Values{"name": {"ann"}, "secret": {password}})
	}
	if answer := logIn("correct horsf"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong password: %s", answer.Status)
	}
	answer := logIn("correct horse")
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatal(answer.Status)
	}
	cookie, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	is(cookie, http.StatusOK)
	var listed []struct {
		ID            int64
		User, Address string
	}
	r := ours(t, "-C", config, "session", "list", "--output", "json")
	if err := json.Unmarshal([]byte(r.stdout), &listed); err != nil || len(listed) != 1 || listed[0].User != "ann" || listed[0].Address != "127.0.0.1" {
		t.Fatalf("%+v", r)
	}
	if r := ours(t, "-C", config, "session", "list"); r.code != 0 || !strings.Contains(r.stdout, "ann") || !strings.Contains(r.stdout, "127.0.0.1") {
		t.Errorf("%+v", r)
	}
	if r := ours(t, "-C", config, "session", "end", "--user", "bob"); r.code != 0 || r.stdout != "0 sessions have ended.\n" {
		t.Errorf("%+v", r)
	}
	is(cookie, http.StatusOK)
	if r := ours(t, "-C", config, "session", "end", fmt.Sprint(listed[0].ID)); r.code != 0 || r.stdout != "1 session has ended.\n" {
		t.Errorf("%+v", r)
	}
	is(cookie, http.StatusSeeOther)
	for _, args := range [][]string{{"--user", "ann"}, {"--all"}} {
		cookie, _, _ = strings.Cut(logIn("correct horse").Header.Get("Set-Cookie"), ";")
		is(cookie, http.StatusOK)
		if r := ours(t, append([]string{"-C", config, "session", "end"}, args...)...); r.code != 0 || r.stdout != "1 session has ended.\n" {
			t.Errorf("%+v", r)
		}
		is(cookie, http.StatusSeeOther)
	}
	for _, args := range [][]string{nil, {"one"}, {"1", "--all"}} {
		if r := ours(t, append([]string{"-C", config, "session", "end"}, args...)...); r.code != 2 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	remote := configFile(t, "scheduler: {cls: remote, url: http://h/}\ndashboard: {users: [{name: ann, token_sha256: "+sha256Of("x")+", roles: [view]}]}\n")
	for _, args := range [][]string{{"session", "list"}, {"dashboard", "--port", "0"}} {
		if r := ours(t, append([]string{"-C", remote}, args...)...); r.code != 1 || !strings.Contains(r.stderr, "database") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// config check reports that credentials of calls don't open the dashboard, and says what to write.
func TestConfigCheckOfADashboardForNobody(t *testing.T) {
	t.Parallel()
	text := services(t) + "rpc_serve: {token: s3cret}\n"
	for dashboard, warned := range map[string]bool{
		"dashboard: {in_rpc_serve: true}":  true,
		"dashboard: {in_rpc_serve: false}": false,
		"dashboard: {in_rpc_serve: true, users: [{name: ann, token_sha256: " + sha256Of("x") + ", roles: [view]}]}": false,
	} {
		r := ours(t, "-C", configFile(t, text+dashboard+"\n"), "config", "check")
		if r.code != 0 || strings.Contains(r.stdout, "WARN  security: dashboard.in_rpc_serve shows the dashboard to nobody") != warned {
			t.Errorf("%s: %+v", dashboard, r)
		}
	}
	r := ours(t, "-C", configFile(t, text+"dashboard: {username: swh, password: s3cret}\n"), "config", "check")
	if r.code != 1 || !strings.Contains(r.stderr, "dashboard.password lets nobody log in: name users in dashboard.users") || strings.Contains(r.stderr, "s3cret") {
		t.Errorf("%+v", r)
	}
}
