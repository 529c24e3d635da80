package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// standstillTime is the time without progress after which the demo ends. Every step of the demo takes seconds.
	standstillTime = 2 * time.Minute
	// mostExplained bounds the origins whose missing visits the demo explains.
	mostExplained = 5
)

var errStandstill = errors.New("nothing has moved")

// standstill detects a standstill. The zero value begins at its first call.
type standstill struct {
	state string
	since time.Time
}

// over compares the state and reports whether it has been the same for standstillTime.
func (s *standstill) over(state string) bool {
	if now := time.Now(); s.since.IsZero() || state != s.state {
		s.state, s.since = state, now
	}
	return time.Since(s.since) >= standstillTime
}

// state describes the progress of all stages. Only progress changes it; a queue's length may go up and down for ever,
// and so may visits without a reason.
func (s *story) state() string {
	var done []int
	for _, stage := range s.stages() {
		if !stage.Level {
			done = append(done, stage.Done)
		}
	}
	open := 0
	for _, r := range s.evidence.Runs {
		if r.open() {
			open++
		}
	}
	return fmt.Sprint(done, len(s.steps), s.command != nil, s.evidence.Waiting, open, s.evidence.differences())
}

// unfinished returns the URLs of the origins that a stage waits for.
func (s *story) unfinished() (urls []string) {
	for _, o := range s.world.origins {
		if o.Kind != wanted && s.evidence.Known[o.URL].Status == "" || o.Kind == growing && !s.again(o) || o.Kind == wanted && !s.saved() {
			urls = append(urls, o.URL)
		}
	}
	return urls
}

// explain returns the output of the scheduler's command explain for these origins.
func (s *story) explain() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 30*time.Second)
	defer cancel()
	urls, texts := s.unfinished(), []string(nil)
	for i, url := range urls {
		if i == mostExplained {
			texts = append(texts, fmt.Sprintf("and %d more", len(urls)-i))
			break
		}
		text, err := output(ctx, s.Scheduler, "-C", s.config, "explain", url)
		if err != nil {
			text = err.Error()
		}
		texts = append(texts, strings.TrimSpace(text))
	}
	return strings.Join(texts, "\n\n")
}

// stuck returns the error for a standstill, with the missing results and their reasons by explain.
func (s *story) stuck(why error, lastLook error) error {
	missing := s.missing()
	if missing == nil {
		missing = append(s.evidence.differences(), fmt.Sprintf("%d messages not sent", s.evidence.Waiting))
	}
	err := fmt.Errorf("%w: %s", why, strings.Join(missing, ", "))
	if errors.Is(s.ctx.Err(), context.Canceled) { // by the user
		return err
	}
	if explained := s.explain(); explained != "" {
		err = fmt.Errorf("%w\n\n%s", err, explained)
	}
	return errors.Join(err, lastLook)
}
