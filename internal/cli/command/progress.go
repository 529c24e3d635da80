package command

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Bar is a progress bar on standard error, if that is a terminal; a nil Bar shows nothing.
type Bar struct {
	container *mpb.Progress
	bar       *mpb.Bar
	logs      *logLines
}

// logLines writes lines of the log to standard error. It prints them above a bar, whose next drawing would overwrite
// them elsewhere.
type logLines struct {
	stderr io.Writer
	bar    atomic.Pointer[mpb.Progress]
}

func (l *logLines) Write(line []byte) (int, error) {
	if container := l.bar.Load(); container != nil {
		if _, err := io.WriteString(container, escape(string(line))); err == nil {
			return len(line), nil
		}
	}
	return l.stderr.Write(line)
}

// ProgressIfPiped is Progress for a command that prints lines while the bar runs. It shows no bar if standard output
// is a terminal.
func (a *App) ProgressIfPiped(what string, total int) *Bar {
	if isTerminal(a.Stdout) {
		return nil
	}
	return a.Progress(what, total)
}

// Progress starts a bar with total steps; 0 is an unknown number.
func (a *App) Progress(what string, total int) *Bar {
	terminal, ok := a.Stderr.(screen)
	if !ok {
		return nil
	}
	container := mpb.New(mpb.WithOutput(terminal.File), mpb.WithWidth(40))
	counters := decor.Any(func(s decor.Statistics) string {
		if s.Total > 0 {
			return fmt.Sprintf("%d / %d", s.Current, s.Total)
		}
		return fmt.Sprint(s.Current)
	})
	a.logLines.bar.Store(container)
	bar := container.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(what+" ")), mpb.AppendDecorators(counters), mpb.BarRemoveOnComplete())
	return &Bar{container, bar, a.logLines}
}

func (p *Bar) Add(n int) {
	if p != nil {
		p.bar.IncrBy(n)
	}
}

// Set sets the number of steps done, and the total.
func (p *Bar) Set(done, total int64) {
	if p != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(done)
	}
}

func (p *Bar) Stop() {
	if p != nil {
		p.bar.Abort(true)
		p.container.Wait()
		p.logs.bar.Store(nil)
	}
}
