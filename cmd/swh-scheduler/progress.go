package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// workBar shows on standard error how far long work has come, if that is a
// terminal; its nil value shows nothing.
type workBar struct {
	container *mpb.Progress
	bar       *mpb.Bar
	logs      *logLines
}

// logLines writes lines of the log to standard error, above the bar while there is
// one: what is written beside the bar is erased when it is next drawn.
type logLines struct {
	stderr io.Writer
	bar    atomic.Pointer[mpb.Progress]
}

func (l *logLines) Write(line []byte) (int, error) {
	if container := l.bar.Load(); container != nil {
		if n, err := container.Write(line); err == nil {
			return n, nil
		}
	}
	return l.stderr.Write(line)
}

// progressBeside is progress of a command that prints lines meanwhile: on a terminal
// they say themselves how far it is, and a bar would overwrite them.
func (a *app) progressBeside(what string, total int) *workBar {
	if isTerminal(a.stdout) {
		return nil
	}
	return a.progress(what, total)
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// progress begins to show work of total steps, or (0) of an unknown number.
func (a *app) progress(what string, total int) *workBar {
	if !isTerminal(a.stderr) {
		return nil
	}
	container := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	counters := decor.Any(func(s decor.Statistics) string {
		if s.Total > 0 {
			return fmt.Sprintf("%d / %d", s.Current, s.Total)
		}
		return fmt.Sprint(s.Current)
	})
	a.logLines.bar.Store(container)
	bar := container.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(what+" ")), mpb.AppendDecorators(counters), mpb.BarRemoveOnComplete())
	return &workBar{container, bar, a.logLines}
}

func (p *workBar) add(n int) {
	if p != nil {
		p.bar.IncrBy(n)
	}
}

// set says how far the work is, where its total becomes known while it goes on.
func (p *workBar) set(done, total int64) {
	if p != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(done)
	}
}

// stop takes the bar away.
func (p *workBar) stop() {
	if p != nil {
		p.bar.Abort(true)
		p.container.Wait()
		p.logs.bar.Store(nil)
	}
}
