package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// stage is a part of the main job and its progress.
type stage struct {
	Name        string
	Done, Total int
	// Level marks a figure that goes up and down (a queue's length) and is never complete.
	Level bool
}

// progress shows the progress of stages. On a terminal, each has a bar, below the notes. Elsewhere, it prints a line
// with all stages every second while they change, otherwise every ten seconds.
type progress struct {
	terminal bool
	bars     string // on the terminal
	start    time.Time
	printed  time.Time // the last line
	text     string    // of it
}

func newProgress() *progress {
	return &progress{terminal: term.IsTerminal(int(os.Stdout.Fd())), start: time.Now()}
}

// update shows the stages. Their number must not change.
func (p *progress) update(stages []stage) {
	if p.terminal {
		bars := ""
		for _, s := range stages {
			const width = 38
			full := width * min(s.Done, s.Total) / max(s.Total, 1)
			bars += fmt.Sprintf("\x1b[K%-18s [%s%s] %3d/%d\n", s.Name, strings.Repeat("=", full), strings.Repeat(" ", width-full), s.Done, s.Total)
		}
		fmt.Print(p.above(), bars)
		p.bars = bars
		return
	}
	var parts []string
	for _, s := range stages {
		parts = append(parts, fmt.Sprintf("%s %d/%d", s.Name, s.Done, s.Total))
	}
	text, interval := strings.Join(parts, ", "), time.Second
	if text == p.text {
		interval = 10 * time.Second
	}
	if time.Since(p.printed) >= interval {
		p.printed, p.text = time.Now(), text
		p.note("%s", text)
	}
}

// above returns the codes that move the cursor to the first bar.
func (p *progress) above() string { return strings.Repeat("\x1b[A", strings.Count(p.bars, "\n")) }

// note prints a line about something that happened.
func (p *progress) note(format string, args ...any) {
	line := fmt.Sprintf("%7s  %s\n", seconds(time.Since(p.start)), fmt.Sprintf(format, args...))
	if p.bars != "" {
		line = p.above() + "\x1b[J" + line + p.bars
	}
	fmt.Print(line)
}
