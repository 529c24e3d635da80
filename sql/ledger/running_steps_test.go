package ledger

import (
	"slices"
	"testing"
	"time"

	"swh-scheduler/internal/testenv/seed"
)

// Steps each 15 s read little. Yet whatever a transaction of less than five minutes writes is read: at once if it took
// some seconds, else within five minutes and a step.
func TestStartsAreRead(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type start struct{ recorded, visible time.Duration }
	var unread []start
	for range 1000 {
		s := start{recorded: time.Duration(rng.Int64N(int64(time.Hour)))}
		s.visible = s.recorded + time.Duration(rng.Int64N(int64(overlap)))
		if rng.IntN(2) == 0 {
			s.visible = s.recorded + time.Duration(rng.Int64N(int64(shortOverlap)))
		}
		unread = append(unread, s)
	}
	last := begin
	for at := time.Duration(0); at < 90*time.Minute; {
		pause := 15*time.Second + time.Duration(rng.Int64N(int64(20*time.Second)))
		if rng.IntN(20) == 0 { // all processes stand still
			pause = time.Duration(rng.Int64N(int64(10 * time.Minute)))
		}
		at += pause
		now := time.Unix(begin.Add(at).Unix(), 0)
		total := time.Duration(0)
		for _, s := range startsOfStep(last.Unix(), now.Unix()) {
			unread = slices.DeleteFunc(unread, func(u start) bool {
				recorded := begin.Add(u.recorded)
				return u.visible <= at && !recorded.Before(s.from) && recorded.Before(s.to)
			})
			total += s.to.Sub(s.from)
		}
		if most := 2*now.Sub(last) + shortOverlap + time.Second; total > most {
			t.Errorf("a step of %v reads the starts of %v", now.Sub(last), total)
		}
		last = now
		for _, s := range unread {
			if quick := s.visible-s.recorded < shortOverlap; s.visible <= at && (quick || at-s.recorded > overlap+time.Second) {
				t.Fatalf("at %v, a start of %v, visible from %v on, isn't read", at, s.recorded, s.visible)
			}
		}
	}
	if len(unread) > 0 {
		t.Errorf("%d starts were never read", len(unread))
	}
}
