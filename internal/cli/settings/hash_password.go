package settings

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/term"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
)

const (
	shortestPassword = 8  // characters
	longestPassword  = 72 // bytes: bcrypt ignores the rest
)

func newHashPassword(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:   "hash-password",
		Short: "Make the hash of a password, for the configuration",
		Long: `Make the hash of a password, for dashboard.users in the configuration. The command asks for
the password on a terminal, or reads the first line of standard input, and prints the hash of
bcrypt. Each call prints another hash. The command needs no configuration.`,
		Args: cobra.NoArgs,
		RunE: command.Work(func(cmd *cobra.Command, _ []string) error {
			password, err := readPassword(cmd.Context(), cmd.InOrStdin(), a.Stderr)
			if err != nil {
				return err
			}
			switch {
			case len([]rune(password)) < shortestPassword:
				return fmt.Errorf("the password is shorter than %d characters", shortestPassword)
			case len(password) > longestPassword:
				return fmt.Errorf("the password is longer than %d bytes, which is all that bcrypt takes into account", longestPassword)
			}
			hash, err := bcrypt.GenerateFromPassword([]byte(password), config.DefaultPasswordCost)
			if err != nil {
				return err
			}
			return a.Print(string(hash) + "\n")
		}),
	}
}

// readPassword asks for a password twice, without echo, if in is a terminal. Otherwise it reads a line. If ctx ends
// meanwhile, the terminal echoes again.
func readPassword(ctx context.Context, in io.Reader, prompts io.Writer) (string, error) {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(command.Interruptible(ctx, in), 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	ask := func(prompt string) (string, error) {
		_, _ = fmt.Fprint(prompts, prompt)
		state, err := term.GetState(int(file.Fd()))
		if err != nil {
			return "", err
		}
		text, err := command.Await(ctx, func() ([]byte, error) { return term.ReadPassword(int(file.Fd())) })
		if ctx.Err() != nil {
			_ = term.Restore(int(file.Fd()), state)
		}
		_, _ = fmt.Fprintln(prompts)
		return string(text), err
	}
	first, err := ask("Password: ")
	if err != nil {
		return "", err
	}
	again, err := ask("Again: ")
	if err == nil && again != first {
		err = errors.New("the two passwords differ")
	}
	return first, err
}
