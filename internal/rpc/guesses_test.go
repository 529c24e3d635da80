package rpc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"swh-scheduler/internal/testenv"
)

// After ten wrong guesses an address must wait, except with credentials that were accepted from it before. Other
// addresses don't wait. A program that repeats the same wrong credentials blocks nobody.
func TestWrongCredentialsAreSlowed(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) {
		o.Credentials = Credentials{Token: "t0ken"}
		o.Proxies = Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	})
	try := func(from, token string, status int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/site-map", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Forwarded-For", from)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, body := do(t, request)
		if response.StatusCode != status || (status == 429) != (response.Header.Get("Retry-After") == "10") {
			t.Errorf("%s, %q: %s, want %d\n%s", from, token, response.Status, status, body)
		}
	}
	for range 2 * GuessBurst {
		try("198.51.100.1", "of last year", 401)
		try("198.51.100.1", "", 401)
	}
	try("198.51.100.2", "t0ken", 200)
	for _, from := range []string{"198.51.100.2", "198.51.100.3"} {
		for n := range GuessBurst {
			try(from, fmt.Sprint(n), 401)
		}
		try(from, "another", 429)
	}
	try("198.51.100.2", "t0ken", 200)
	try("198.51.100.3", "t0ken", 429)
	try("198.51.100.4", "t0ken", 200)
}

// One more guess is allowed after ten seconds, and the stored state is bounded.
func TestGuesses(t *testing.T) {
	t.Parallel()
	var g Guesses
	now, wrong := time.Now(), func() bool { return false }
	address := netip.MustParsePrefix("192.0.2.1/32")
	for n := range GuessBurst {
		if err := g.Check(address, fmt.Sprint(n), now, wrong); err != ErrWrongCredentials {
			t.Error(err)
		}
	}
	right := func() bool { return true }
	if err := g.Check(address, "right", now.Add(GuessInterval-1), right); err != ErrTooManyGuesses {
		t.Error(err)
	}
	if err := g.Check(address, "right", now.Add(GuessInterval), right); err != nil {
		t.Error(err)
	}
	if err := g.Check(address, "right", now, right); err != ErrTooManyGuesses {
		t.Errorf("what was right there, unless such credentials pass: %v", err)
	}
	g.AcceptLastRight = true
	if err := g.Check(address, "right", now.Add(GuessInterval), right); err != nil {
		t.Error(err)
	}
	if err := g.Check(address, "right", now, right); err != nil {
		t.Errorf("what was right there: %v", err)
	}
	if err := g.Check(address, "right", now, wrong); err != ErrWrongCredentials {
		t.Errorf("what was right there, and is no more: %v", err)
	}
	for n := range 3 * maxGuessers {
		_ = g.Check(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32), "x", now, wrong)
	}
	if n := len(g.by); n > maxGuessers {
		t.Errorf("%d addresses are remembered", n)
	}
}

// What was wrong and is right later, without a notice of that, is accepted once its try is paid for.
func TestGuessThatBecomesRight(t *testing.T) {
	t.Parallel()
	var g Guesses
	now, address := time.Now(), netip.MustParsePrefix("192.0.2.1/32")
	for after, want := range []error{ErrWrongCredentials, ErrWrongCredentials, nil} {
		is := after > 0
		if err := g.Check(address, "a", now.Add(time.Duration(after)*GuessInterval/2), func() bool { return is }); err != want {
			t.Errorf("after %d half intervals: %v, want %v", after, err, want)
		}
	}
}

// Behind one address, programs with old credentials keep out nobody, and a guesser keeps out no client that was
// accepted before.
func TestGuessesOfManyClients(t *testing.T) {
	t.Parallel()
	g := Guesses{AcceptLastRight: true}
	address, now := netip.MustParsePrefix("192.0.2.1/32"), time.Now()
	check := func(credentials string, want error) {
		t.Helper()
		if err := g.Check(address, credentials, now, func() bool { return strings.HasPrefix(credentials, "right") }); err != want {
			t.Errorf("%s: %v, want %v", credentials, err, want)
		}
	}
	for range 2 * GuessBurst {
		for n := range 4 {
			check(fmt.Sprint("old ", n), ErrWrongCredentials)
			check(fmt.Sprint("right ", n), nil)
		}
	}
	for n := range GuessBurst {
		_ = g.Check(address, fmt.Sprint("guess ", n), now, func() bool { return false })
	}
	check("right 4", ErrTooManyGuesses)
	for n := range 4 {
		check(fmt.Sprint("right ", n), nil)
		check(fmt.Sprint("old ", n), ErrWrongCredentials)
	}
	for n := range 1000 {
		now = now.Add(time.Hour)
		check(fmt.Sprint("right, further ", n), nil)
		check(fmt.Sprint("wrong, further ", n), ErrWrongCredentials)
	}
	if who := g.by[address]; len(who.right) > 300 || len(who.wrong) > 300 {
		t.Errorf("%d right and %d wrong credentials are remembered", len(who.right), len(who.wrong))
	}
}

// The source of a request behind a trusted proxy is the last address in the header, with or without a port.
func TestProxies(t *testing.T) {
	t.Parallel()
	proxies := Proxies{netip.MustParsePrefix("192.0.2.0/24")}
	for told, want := range map[string]string{
		"203.0.113.9, 203.0.113.1": "203.0.113.1/32", "203.0.113.1:4711": "203.0.113.1/32", "2001:db8::1": "2001:db8::/64",
		"[2001:db8::1]:4711": "2001:db8::/64", "[2001:db8::1]": "2001:db8::/64", "::ffff:203.0.113.1": "203.0.113.1/32", "unknown": "192.0.2.7/32", "": "192.0.2.7/32",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "192.0.2.7:1"
		r.Header.Set("X-Forwarded-For", told)
		if from := proxies.Source(r); from.String() != want {
			t.Errorf("%q: %s, want %s", told, from, want)
		}
		r.RemoteAddr = "198.51.100.7:1"
		if from := proxies.Source(r); from.String() != "198.51.100.7/32" {
			t.Errorf("a stranger says %q and is taken for %s", told, from)
		}
	}
}

// An address has at most ten concurrent slow checks. Right credentials, and checks that fail with an error, cost
// nothing.
func TestSlowGuesses(t *testing.T) {
	t.Parallel()
	g, now := new(Guesses), time.Now()
	from, other := netip.MustParsePrefix("198.51.100.1/32"), netip.MustParsePrefix("198.51.100.2/32")
	is := func(ok bool, err error) func() (bool, error) { return func() (bool, error) { return ok, err } }
	busy := errors.New("busy")
	for range 2 * GuessBurst {
		if err := g.CheckSlowly(from, "right", now, is(true, nil)); err != nil {
			t.Fatal(err)
		}
		if err := g.CheckSlowly(from, "right", now, is(false, busy)); err != busy {
			t.Fatal(err)
		}
	}
	checks, held := make(chan bool, 1000), make(chan bool)
	var all sync.WaitGroup
	var refused atomic.Int32
	for n := range 50 {
		all.Go(func() {
			err := g.CheckSlowly(from, fmt.Sprint(n), now, func() (bool, error) {
				checks <- true
				<-held
				return false, nil
			})
			if err == ErrTooManyGuesses {
				refused.Add(1)
			} else if err != ErrWrongCredentials {
				t.Error(err)
			}
		})
	}
	testenv.Becomes(t, "refused", 50-GuessBurst, func() int { return int(refused.Load()) })
	if err := g.CheckSlowly(other, "right", now, is(true, nil)); err != nil { // while the others are checked
		t.Error(err)
	}
	close(held)
	all.Wait()
	if len(checks) != GuessBurst {
		t.Errorf("%d checks", len(checks))
	}
	if err := g.CheckSlowly(from, "right", now, is(true, nil)); err != ErrTooManyGuesses {
		t.Error(err)
	}
	if err := g.CheckSlowly(from, "right", now.Add(GuessInterval), is(true, nil)); err != nil {
		t.Error(err)
	}
	if err := g.CheckSlowly(from, "wrong", now.Add(GuessInterval), is(false, nil)); err != ErrWrongCredentials {
		t.Error(err)
	}
	if err := g.CheckSlowly(from, "wrong", now.Add(GuessInterval), func() (bool, error) { panic("what was wrong is checked again") }); err != ErrWrongCredentials {
		t.Error(err)
	}
}

// Credentials that aren't configured are no way in: neither an empty token nor an empty user.
func TestEmptyCredentials(t *testing.T) {
	t.Parallel()
	ask := func(c Credentials, authorization string) bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", authorization)
		return c.accept(r)
	}
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	user, token := Credentials{Username: "u", Password: "p"}, Credentials{Token: "t"}
	for _, nothing := range []string{"", "Bearer", "Bearer ", basic(":"), "Basic"} {
		if ask(user, nothing) || ask(token, nothing) {
			t.Errorf("%q is accepted", nothing)
		}
	}
	if !ask(user, basic("u:p")) || !ask(token, "Bearer t") || ask(token, "Basic t") {
		t.Error("the right credentials are refused, or others accepted")
	}
}
