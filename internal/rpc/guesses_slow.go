package rpc

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"
)

// CheckSlowly is Check for a check that takes long, such as that of a hash of a password. It calls right without the
// lock, and charges the address for the try meanwhile: an address has at most GuessBurst such tries at a time.
// CheckSlowly returns an error of right, and charges nothing for it.
func (g *Guesses) CheckSlowly(from netip.Prefix, credentials string, now time.Time, right func() (bool, error)) error {
	sum := sha256.Sum256([]byte(credentials))
	if err := g.owe(from, sum, now); err != nil {
		return err
	}
	ok, err := right()
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.by[from]
	switch {
	case err == nil && !ok:
		who.wrong = with(who.wrong, sum, keptWrong)
		err = ErrWrongCredentials
	case !who.owes.IsZero():
		who.owes = who.owes.Add(-GuessInterval)
	}
	g.remember(from, who, now)
	return err
}

// owe charges an address for a try, unless it may not try.
func (g *Guesses) owe(from netip.Prefix, sum digest, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.by[from]
	switch {
	case who.owes.After(now) && slices.Contains(who.wrong, sum):
		return ErrWrongCredentials
	case who.owes.Sub(now) > (GuessBurst-1)*GuessInterval:
		return ErrTooManyGuesses
	}
	if who.owes.Before(now) {
		who.owes = now
	}
	who.owes = who.owes.Add(GuessInterval)
	g.remember(from, who, now)
	return nil
}
