package rpc

import (
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Wrong credentials that an address may try at once, and how often others after these.
const (
	GuessesAtOnce = 10
	GuessEvery    = 10 * time.Second
)

// maxGuessers is how many addresses are remembered.
const maxGuessers = 10_000

// What is wrong with credentials.
var (
	ErrWrong   = errors.New("wrong credentials")
	ErrTooMany = errors.New("too many wrong credentials from this address")
)

// Guesses slows wrong credentials. Each costs its address GuessEvery, and who owes the time of
// GuessesAtOnce may not try: then right credentials are refused, too, as an answer would tell
// whether they are right. The same wrong ones again cost nothing, as they tell nothing: a program that
// was not told of a new password doesn't keep out others on its host. The zero value is ready to use, by any
// number of goroutines.
type Guesses struct {
	// KnownPass has credentials pass that were right from the address last: who guesses keeps out nobody
	// there who was in before, but may guess these.
	KnownPass bool

	mu sync.Mutex
	by map[netip.Prefix]guesser
}

type guesser struct {
	owes  time.Time         // until when
	wrong [sha256.Size]byte // of what was wrong last
	right [sha256.Size]byte // of what was right last, with KnownPass
}

// Tried returns what Judge would say of credentials without asking whether they are right, or nil: a check that
// takes long comes between them.
func (g *Guesses) Tried(from netip.Prefix, credentials string, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tried(g.by[from], sha256.Sum256([]byte(credentials)), now)
}

func (g *Guesses) tried(who guesser, sum [sha256.Size]byte, now time.Time) error {
	switch {
	case who.wrong == sum && who.owes.After(now):
		return ErrWrong
	case !(g.KnownPass && who.right == sum) && who.owes.Sub(now) > (GuessesAtOnce-1)*GuessEvery:
		return ErrTooMany
	}
	return nil
}

// Judge asks whether credentials that came from an address are right. The error is ErrTooMany or ErrWrong.
func (g *Guesses) Judge(from netip.Prefix, credentials string, now time.Time, right func() bool) error {
	sum := sha256.Sum256([]byte(credentials))
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.by[from]
	if err := g.tried(who, sum, now); err != nil {
		return err
	}
	if right() {
		if g.KnownPass && who.right != sum {
			who.right = sum
			g.remember(from, who, now)
		}
		return nil
	}
	if who.owes.Before(now) {
		who.owes = now
	}
	who.owes, who.wrong = who.owes.Add(GuessEvery), sum
	g.remember(from, who, now)
	return ErrWrong
}

// Changed notes that other credentials are right from now on: those that were wrong may be.
func (g *Guesses) Changed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for from, who := range g.by {
		who.wrong = [sha256.Size]byte{}
		g.by[from] = who
	}
}

// remember notes what is known of an address. Those that owe nothing make room for it.
func (g *Guesses) remember(from netip.Prefix, who guesser, now time.Time) {
	if len(g.by) >= maxGuessers {
		maps.DeleteFunc(g.by, func(_ netip.Prefix, other guesser) bool { return !other.owes.After(now) })
	}
	if len(g.by) >= maxGuessers || g.by == nil {
		g.by = map[netip.Prefix]guesser{} // so many addresses are not slowed by remembering some of them
	}
	g.by[from] = who
}

// Proxies are the addresses of proxies that are believed from whom a request comes.
type Proxies []netip.Prefix

// Sent reports whether the connection is from one of them.
func (p Proxies) Sent(r *http.Request) bool {
	return slices.ContainsFunc(p, func(proxy netip.Prefix) bool { return proxy.Contains(sender(r)) })
}

// From returns from where a request comes: behind a trusted proxy, the last address of what that says;
// of IPv6 the network of 64 bits, as a host has many addresses.
func (p Proxies) From(r *http.Request) netip.Prefix {
	address := p.Address(r)
	network, _ := address.Prefix(min(address.BitLen(), 64))
	return network
}

// Address returns the address itself.
func (p Proxies) Address(r *http.Request) netip.Addr {
	address := sender(r)
	if p.Sent(r) {
		told := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if client, ok := addressOf(strings.TrimSpace(told[len(told)-1])); ok {
			address = client
		}
	}
	return address
}

// sender returns the address of a connection, the zero address if there is none.
func sender(r *http.Request) netip.Addr {
	address, _ := addressOf(r.RemoteAddr)
	return address
}

// addressOf reads an address, with or without a port, and an IPv6 one with or without brackets.
func addressOf(text string) (netip.Addr, bool) {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone(""), true
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err == nil
}
