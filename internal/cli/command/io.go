package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"swh-scheduler/internal/pytext"
)

func (a *App) Print(text string) error {
	_, err := io.WriteString(a.Stdout, text)
	return err
}

// Bold returns text in bold if Stdout takes styles.
func (a *App) Bold(text string) string {
	if !a.Styled {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// Terminal returns the width of Stdout, and its style of heads.
func (a *App) Terminal() pytext.Terminal {
	file, ok := a.Stdout.(screen)
	if !ok {
		return pytext.Terminal{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		width = 0
	}
	return pytext.Terminal{Width: width, Bold: a.Bold}
}

// OnTerminal reports whether Stdout is a terminal.
func (a *App) OnTerminal() bool { return isTerminal(a.Stdout) }

// LogsToTerminal reports whether the log shows steps on the terminal that has the output.
func (a *App) LogsToTerminal() bool {
	return isTerminal(a.Stdout) && isTerminal(a.Stderr) && a.Level.Level() <= slog.LevelInfo
}

// Top returns the control sequence that clears the screen, or "" if Stdout takes no styles.
func (a *App) Top() string {
	if !a.Styled {
		return ""
	}
	return "\x1b[H\x1b[2J"
}

func OutputFlag(flags *pflag.FlagSet, output *string) {
	flags.Var(Choice(output, "text", "json"), "output", "form of the output: text or json")
}

// Show prints a result: as JSON if output is json, else text.
func (a *App) Show(output string, result any, text string) error {
	if output == "json" {
		return a.PrintJSON(result)
	}
	return a.Print(text)
}

// PrintJSON prints a result as JSON. Dates are in UTC, intervals in seconds.
func (a *App) PrintJSON(v any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func InSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}

// ReadInput reads the whole file that an argument names; - is standard input.
func ReadInput(cmd *cobra.Command, argument, path string) ([]byte, error) {
	file, err := OpenInput(cmd, argument, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// Await calls read, and returns earlier if ctx ends: a signal ends a command that waits for its input. The call then
// goes on until the process ends.
func Await[T any](ctx context.Context, read func() (T, error)) (result T, err error) {
	if ctx == nil { // a command that was not executed by ExecuteContext
		return read()
	}
	done := make(chan struct{})
	var input T
	var readErr error
	go func() {
		defer close(done)
		input, readErr = read()
	}()
	select {
	case <-done:
		return input, readErr
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

// Interruptible returns a reader of r whose calls end with ctx.
func Interruptible(ctx context.Context, r io.Reader) io.Reader { return interruptible{ctx, r} }

type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	own := make([]byte, len(p)) // a read that goes on doesn't write to p
	n, err := Await(i.ctx, func() (int, error) { return i.r.Read(own) })
	return copy(p, own[:n]), err
}

// interruptibleFile is a file whose reads end with ctx.
type interruptibleFile struct {
	io.Reader
	io.Closer
}

// OpenInput opens the file that an argument names; - is standard input.
func OpenInput(cmd *cobra.Command, argument, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(Interruptible(cmd.Context(), cmd.InOrStdin())), nil
	}
	file, err := Await(cmd.Context(), func() (*os.File, error) { return os.Open(path) })
	if ctx := cmd.Context(); ctx != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		if info, statErr := file.Stat(); statErr != nil || !info.IsDir() {
			return interruptibleFile{Interruptible(cmd.Context(), file), file}, nil
		}
		_ = file.Close()
		err = syscall.EISDIR
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	text := err.Error()
	return nil, Usagef(cmd, "Invalid value for '%s': '%s': %s", argument, path, strings.ToUpper(text[:1])+text[1:])
}

// InFile puts the name of a file before each line of an error.
func InFile(path string, err error) error {
	if path == "-" {
		path = "standard input"
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, path+": "+strings.TrimSuffix(line, "\n"))
	}
	return errors.New(strings.Join(lines, "\n"))
}
