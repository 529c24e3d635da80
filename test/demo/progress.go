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

// progress shows the stages as they advance.
type progress interface {
	// update shows the stages: the same ones in the same order each time.
	update([]stage)
	// note prints a line about something that happened.
	note(format string, args ...any)
	// close leaves the last state on the screen.
	close()
}

// newProgress draws bars on a terminal, and prints plain lines elsewhere.
func newProgress(out *os.File) progress {
	start := time.Now()
	if term.IsTerminal(int(out.Fd())) {
		return &bars{container: mpb.New(mpb.WithOutput(out), mpb.WithWidth(40)), rates: map[string]*rate{}, start: start}
	}
	return &lines{out: out, rates: map[string]*rate{}, start: start}
}

// rate is the mean speed of a stage between its first and its last step.
type rate struct {
	first, last time.Time
	from, done  int
}

func (r *rate) step(done int, now time.Time) {
	if r.first.IsZero() && done > 0 {
		r.first, r.last, r.from = now, now, done
	}
	if done != r.done {
		r.last = now
	}
	r.done = done
}

// perSecond is 0 until it can be told.
func (r *rate) perSecond() float64 {
	elapsed := r.last.Sub(r.first).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64(r.done-r.from) / elapsed
}

func advance(rates map[string]*rate, s stage) float64 {
	r, ok := rates[s.Name]
	if !ok {
		r = &rate{}
		rates[s.Name] = r
	}
	r.step(s.Done, time.Now())
	if s.Level {
		return 0
	}
	return r.perSecond()
}

// lines prints the stages on one line: every second while they change, else
// every ten.
type lines struct {
	out   io.Writer
	rates map[string]*rate
	start time.Time
	last  time.Time
	text  string // as printed last
	next  string // not printed yet
}

func (l *lines) update(stages []stage) {
	parts := make([]string, len(stages))
	for i, s := range stages {
		parts[i] = fmt.Sprintf("%s %d/%d", s.Name, s.Done, s.Total)
		if r := advance(l.rates, s); r > 0 {
			parts[i] += fmt.Sprintf(" (%.1f/s)", r)
		}
	}
	l.next = strings.Join(parts, ", ")
	interval := time.Second
	if l.next == l.text {
		interval = 10 * time.Second
	}
	if time.Since(l.last) >= interval {
		l.flush()
	}
}

func (l *lines) flush() {
	l.last, l.text = time.Now(), l.next
	l.print(l.text)
}

func (l *lines) note(format string, args ...any) { l.print(fmt.Sprintf(format, args...)) }

func (l *lines) close() {
	if l.next != l.text {
		l.flush()
	}
}

func (l *lines) print(text string) {
	_, _ = fmt.Fprintf(l.out, "%7s  %s\n", seconds(time.Since(l.start)), text)
}

// bars draws one bar a stage.
type bars struct {
	container *mpb.Progress
	bars      []bar
	rates     map[string]*rate
	start     time.Time
}

// bar is a drawn stage. Its rate is read by the goroutine that draws.
type bar struct {
	*mpb.Bar
	rate *atomic.Value // string
}

func (b *bars) update(stages []stage) {
	for i, s := range stages {
		if i == len(b.bars) {
			b.bars = append(b.bars, b.add(s.Name))
		}
		text := ""
		if r := advance(b.rates, s); r > 0 {
			text = fmt.Sprintf("%.1f/s", r)
		}
		b.bars[i].rate.Store(text)
		b.bars[i].SetTotal(int64(s.Total), false)
		b.bars[i].SetCurrent(int64(s.Done))
	}
}

func (b *bars) add(name string) bar {
	added := bar{rate: &atomic.Value{}}
	added.rate.Store("")
	// A total of 0 is what lets it be set later, and keeps the bar open at 100 %.
	added.Bar = b.container.New(0, mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]"),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(
			decor.CountersNoUnit("%d/%d", decor.WCSyncSpace),
			decor.Any(func(decor.Statistics) string { return added.rate.Load().(string) }, decor.WCSyncSpace),
		),
	)
	return added
}

func (b *bars) note(format string, args ...any) {
	_, _ = fmt.Fprintf(b.container, "%7s  %s\n", seconds(time.Since(b.start)), fmt.Sprintf(format, args...))
}

func (b *bars) close() {
	for _, bar := range b.bars {
		bar.Abort(false)
	}
	b.container.Wait()
}
