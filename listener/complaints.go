package listener

import (
	"log/slog"
	"time"
	"unicode/utf8"
)

const (
	complaintPeriod = time.Minute // of one line a kind in the log
	excerptLength   = 200         // bytes of what was wrong
)

// complaints counts what is wrong with events, and logs the first of each kind
// in a minute. It belongs to one goroutine.
type complaints struct {
	log     *slog.Logger
	count   func(Problem)
	last    map[Problem]time.Time
	skipped map[Problem]int // since the last line
}

func newComplaints(log *slog.Logger, count func(Problem)) *complaints {
	return &complaints{log: log, count: count, last: make(map[Problem]time.Time), skipped: make(map[Problem]int)}
}

// note is told of a problem and of what is wrong.
func (c *complaints) note(p Problem, detail string) {
	c.count(p)
	now := time.Now()
	if last, ok := c.last[p]; ok && now.Sub(last) < complaintPeriod {
		c.skipped[p]++
		return
	}
	c.log.Warn("event not understood", "problem", string(p), "detail", excerpt(detail, excerptLength),
		"not_logged_before", c.skipped[p])
	c.last[p], c.skipped[p] = now, 0
}

// excerpt is at most n bytes of text, cut between characters.
func excerpt(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
