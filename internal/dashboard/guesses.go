package dashboard

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Wrong logins that an address may try at once, and how often one more after these.
const (
	guessesAtOnce = 10
	guessEvery    = 10 * time.Second
)

// maxGuessers is how many addresses are remembered.
const maxGuessers = 10_000

var errTooManyLogins = Errorf(http.StatusTooManyRequests, "There were too many wrong logins from your address. Try again in %s.", guessEvery)

// guesses slows wrong logins. Each costs its address guessEvery, and who owes the time of
// guessesAtOnce may not try: then right credentials are refused, too, as an answer would tell
// whether they are right. The zero value is ready to use.
type guesses struct {
	mu   sync.Mutex
	paid map[netip.Prefix]time.Time // until when each address owes time
}

// judge asks whether the credentials that came from an address are right. The error is
// errTooManyLogins or errLogin.
func (g *guesses) judge(from netip.Prefix, now time.Time, right func() bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	paid := g.paid[from]
	if paid.Sub(now) > (guessesAtOnce-1)*guessEvery {
		return errTooManyLogins
	}
	if right() {
		return nil
	}
	if paid.Before(now) {
		paid = now
	}
	if len(g.paid) >= maxGuessers {
		maps.DeleteFunc(g.paid, func(_ netip.Prefix, paid time.Time) bool { return !paid.After(now) })
	}
	if len(g.paid) >= maxGuessers || g.paid == nil {
		g.paid = map[netip.Prefix]time.Time{} // so many addresses are not slowed by remembering some of them
	}
	g.paid[from] = paid.Add(guessEvery)
	return errLogin
}
