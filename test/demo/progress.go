package main

import (
	"fmt"
	"io"
	"os"
	"strings"
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
	// never finished.
	Level bool
}

// progress shows the stages as they advance: a bar for each on a terminal, elsewhere a line
// of them all, every second while they change, else every ten.
type progress struct {
	out        io.Writer
	bars       *mpb.Progress // nil: lines
	stages     []*mpb.Bar
	start      time.Time
	printed    time.Time // the last line
	text, next string    // of the last line, and of one that was not printed yet
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
		if p.bars != nil {
			if i == len(p.stages) {
				p.stages = append(p.stages, p.newBar(s.Name))
			}
			p.stages[i].SetTotal(int64(s.Total), false)
			p.stages[i].SetCurrent(int64(s.Done))
		}
		parts[i] = fmt.Sprintf("%s %d/%d", s.Name, s.Done, s.Total)
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

func (p *progress) newBar(name string) *mpb.Bar {
	// A total of 0 is what lets it be set later, and keeps the bar open at 100 %.
	return p.bars.New(0, mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]"),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.CountersNoUnit("%d/%d", decor.WCSyncSpace)))
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
			s.Abort(false)
		}
		p.bars.Wait()
	}
}
