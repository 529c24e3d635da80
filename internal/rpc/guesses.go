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

// The number of wrong credentials that an address may try at once, and the time for each further try.
const (
	GuessBurst    = 10
	GuessInterval = 10 * time.Second
)

// maxGuessers is the number of stored addresses. Each has its last keptWrong wrong and its last keptRight right
// credentials, as many programs may share an address.
const (
	maxGuessers = 10_000
	keptWrong   = 16
	keptRight   = 256
)

// The errors of credentials.
var (
	ErrWrongCredentials = errors.New("wrong credentials")
	ErrTooManyGuesses   = errors.New("too many wrong credentials from this address")
)

// Guesses slows tries with wrong credentials. Each try costs its address GuessInterval. An address that owes the time
// of GuessBurst may not try: right credentials are then refused too, because the answer would reveal that they
// are right. The same wrong ones again cost nothing, because they reveal nothing: programs with old passwords
// don't keep out others on their host. The zero value is ready to use, and safe for concurrent use.
type Guesses struct {
	// AcceptLastRight accepts credentials that were among the last right ones of their address. Then a guesser keeps out
	// no client of that address that was accepted before, but may guess the credentials of these.
	AcceptLastRight bool

	mu sync.Mutex
	by map[netip.Prefix]guesser
}

type guesser struct {
	owes  time.Time // until when
	wrong []digest  // of the last wrong credentials, the oldest first
	right []digest  // of the last right credentials, with AcceptLastRight
}

type digest = [sha256.Size]byte

// with returns digests with one more, if it is not among them. It drops the oldest beyond a number.
func with(digests []digest, sum digest, most int) []digest {
	if slices.Contains(digests, sum) {
		return digests
	}
	return append(slices.Clone(digests[max(0, len(digests)-most+1):]), sum)
}

// CheckLimit returns the error that Check would return before it checks credentials, or nil. It is for use before a check
// that takes long.
func (g *Guesses) CheckLimit(from netip.Prefix, credentials string, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tried(g.by[from], sha256.Sum256([]byte(credentials)), now)
}

func (g *Guesses) tried(who guesser, sum digest, now time.Time) error {
	switch {
	case who.owes.After(now) && slices.Contains(who.wrong, sum):
		return ErrWrongCredentials
	case !(g.AcceptLastRight && slices.Contains(who.right, sum)) && who.owes.Sub(now) > (GuessBurst-1)*GuessInterval:
		return ErrTooManyGuesses
	}
	return nil
}

// Check checks credentials of an address with right. The error is ErrTooManyGuesses or ErrWrongCredentials.
func (g *Guesses) Check(from netip.Prefix, credentials string, now time.Time, right func() bool) error {
	sum := sha256.Sum256([]byte(credentials))
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.by[from]
	if err := g.tried(who, sum, now); err != nil {
		return err
	}
	if right() {
		if g.AcceptLastRight && !slices.Contains(who.right, sum) {
			who.right = with(who.right, sum, keptRight)
			g.remember(from, who, now)
		}
		return nil
	}
	if who.owes.Before(now) {
		who.owes = now
	}
	who.owes, who.wrong = who.owes.Add(GuessInterval), with(who.wrong, sum, keptWrong)
	g.remember(from, who, now)
	return ErrWrongCredentials
}

// CredentialsChanged records that the right credentials have changed: wrong ones may now be right.
func (g *Guesses) CredentialsChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for from, who := range g.by {
		who.wrong = nil
		g.by[from] = who
	}
}

// remember stores the state of an address. It drops addresses that owe nothing to make room.
func (g *Guesses) remember(from netip.Prefix, who guesser, now time.Time) {
	if len(g.by) >= maxGuessers {
		maps.DeleteFunc(g.by, func(_ netip.Prefix, other guesser) bool { return !other.owes.After(now) })
	}
	if len(g.by) >= maxGuessers || g.by == nil {
		g.by = map[netip.Prefix]guesser{} // with so many addresses, storing some of them slows nobody
	}
	g.by[from] = who
}

// Proxies are the addresses of proxies that are trusted for the source of a request.
type Proxies []netip.Prefix

// Trusts reports whether the connection comes from one of them.
func (p Proxies) Trusts(r *http.Request) bool {
	return slices.ContainsFunc(p, func(proxy netip.Prefix) bool { return proxy.Contains(sender(r)) })
}

// Source returns the source of a request: behind a trusted proxy, the last address in the proxy's header. For IPv6 it
// returns the network of 64 bits, as a host has many addresses.
func (p Proxies) Source(r *http.Request) netip.Prefix {
	address := p.Address(r)
	network, _ := address.Prefix(min(address.BitLen(), 64))
	return network
}

// Address returns the address itself.
func (p Proxies) Address(r *http.Request) netip.Addr {
	address := sender(r)
	if p.Trusts(r) {
		addresses := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if client, ok := addressOf(strings.TrimSpace(addresses[len(addresses)-1])); ok {
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
