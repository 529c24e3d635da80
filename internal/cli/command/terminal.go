package command

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"

	"swh-scheduler/internal/pytext"
)

// screen is a terminal. Text from listers and workers may contain control sequences. Line ends, tabs and the
// program's own styles pass; all other control characters are shown escaped.
type screen struct{ *os.File }

// onScreen matches the control characters that a screen passes unchanged.
var onScreen = regexp.MustCompile("\r?\n|\t|\x1b\\[[01]m")

func (s screen) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.File, escape(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func escape(text string) string {
	var escaped strings.Builder
	end := 0
	for _, at := range onScreen.FindAllStringIndex(text, -1) {
		escaped.WriteString(pytext.Visible(text[end:at[0]]) + text[at[0]:at[1]])
		end = at[1]
	}
	escaped.WriteString(pytext.Visible(text[end:]))
	return escaped.String()
}

// toScreen returns w, as a screen if it is a terminal.
func toScreen(w io.Writer) io.Writer {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return screen{file}
	}
	return w
}

func isTerminal(w io.Writer) bool {
	_, ok := w.(screen)
	return ok
}

// Line returns text for one line of output. On a terminal, it escapes line ends, which could fake further output.
func (a *App) Line(text string) string {
	if isTerminal(a.Stdout) {
		return pytext.Visible(text)
	}
	return text
}

// Lines returns Line of each text.
func (a *App) Lines(texts []string) []string {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = a.Line(text)
	}
	return lines
}
