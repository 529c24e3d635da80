package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// stage is one part of the main job and how far it has come.
type stage struct {
	Name  string
	Done  int
	Total int
	// Level marks a figure that goes up and down (a queue's length) and is
	// never finished; it has no rate.
	Level bool
}

// progress shows the stages as they advance: a bar for each on a terminal, elsewhere a line
// of them all, every second while they change, else every ten.
type progress struct {
	out        io.Writer
	bars       *mpb.Progress // nil: lines
	stages     []shownStage
	start      time.Time
	printed    time.Time // the last line
	text, next string    // of the last line, and of one that was not printed yet
}

// shownStage is a stage with its mean speed between its first step and its last.
type shownStage struct {
	bar         *mpb.Bar
	speed       *atomic.Value // text; the goroutine that draws bars reads it
	first, last time.Time
	from, done  int
}

func newProgress(out *os.File) *progress {
	p := &progress{out: out, start: time.Now()}
	if term.IsTerminal(int(out.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
		p.out = p.bars
	}
	return p
}

// update shows the stages: the same ones in the same order each time.
func (p *progress) update(stages []stage) {
	parts := make([]string, len(stages))
	for i, s := range stages {
		if i == len(p.stages) {
			p.stages = append(p.stages, p.newStage(s.Name))
		}
		speed := p.stages[i].step(s)
		parts[i] = fmt.Sprintf("%s %d/%d", s.Name, s.Done, s.Total)
		if speed != "" {
			parts[i] += " (" + speed + ")"
		}
	}
	p.next = strings.Join(parts, ", ")
	interval := time.Second
	if p.next == p.text {
		interval = 10 * time.Second
	}
	if p.bars == nil && time.Since(p.printed) >= interval {
		p.flush()
	}
}

func (p *progress) newStage(name string) shownStage {
	s := shownStage{speed: new(atomic.Value)}
	s.speed.Store("")
	if p.bars != nil {
		// A total of 0 is what lets it be set later, and keeps the bar open at 100 %.
		s.bar = p.bars.New(0, mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]"),
			mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersNoUnit("%d/%d", decor.WCSyncSpace),
				decor.Any(func(decor.Statistics) string { return s.speed.Load().(string) }, decor.WCSyncSpace)))
	}
	return s
}

// step returns the speed, "" until it can be told.
func (s *shownStage) step(now stage) (speed string) {
	if s.first.IsZero() && now.Done > 0 {
		s.first, s.last, s.from = time.Now(), time.Now(), now.Done
	}
	if now.Done != s.done {
		s.last, s.done = time.Now(), now.Done
	}
	if elapsed := s.last.Sub(s.first).Seconds(); elapsed > 0 && s.done > s.from && !now.Level {
		speed = fmt.Sprintf("%.1f/s", float64(s.done-s.from)/elapsed)
	}
	if s.bar != nil {
		s.speed.Store(speed)
		s.bar.SetTotal(int64(now.Total), false)
		s.bar.SetCurrent(int64(now.Done))
	}
	return speed
}

func (p *progress) flush() {
	p.printed, p.text = time.Now(), p.next
	p.note("%s", p.text)
}

// note prints a line about something that happened.
func (p *progress) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "%7s  %s\n", seconds(time.Since(p.start)), fmt.Sprintf(format, args...))
}

// close leaves the last state on the screen.
func (p *progress) close() {
	switch {
	case p.bars == nil && p.next != p.text:
		p.flush()
	case p.bars != nil:
		for _, s := range p.stages {
			s.bar.Abort(false)
		}
		p.bars.Wait()
	}
}
