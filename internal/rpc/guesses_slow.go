package rpc

import (
	"crypto/sha256"
	"net/netip"
	"time"
)

// JudgeSlowly is Judge for a check that takes long, such as that of a hash of a password. right is called without
// the lock, and the address owes for the try meanwhile: it has at most GuessesAtOnce at the same time. An error of
// right is returned, and costs nothing.
func (g *Guesses) JudgeSlowly(from netip.Prefix, credentials string, now time.Time, right func() (bool, error)) error {
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
		who.wrong = sum
		err = ErrWrong
	case !who.owes.IsZero():
		who.owes = who.owes.Add(-GuessEvery)
	}
	g.remember(from, who, now)
	return err
}

// owe has an address owe for a try, unless it may not try.
func (g *Guesses) owe(from netip.Prefix, sum [sha256.Size]byte, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.by[from]
	switch {
	case who.wrong == sum && who.owes.After(now):
		return ErrWrong
	case who.owes.Sub(now) > (GuessesAtOnce-1)*GuessEvery:
		return ErrTooMany
	}
	if who.owes.Before(now) {
		who.owes = now
	}
	who.owes = who.owes.Add(GuessEvery)
	g.remember(from, who, now)
	return nil
}
