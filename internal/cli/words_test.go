package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/testenv"
)

// Commands that messages, pages and documents quote exist.
func TestQuotedCommandsExist(t *testing.T) {
	t.Parallel()
	root := newRoot(command.New("", io.Discard, io.Discard))
	const top = "../.."
	quoted := regexp.MustCompile("(?:\\\\?\"|`|<code>)swh-scheduler ([a-z][a-z_-]*(?: [a-z][a-z_-]*)*)")
	found := 0
	for _, room := range []string{"README.md", "docs", "internal", "sql", "runner", "recurrent", "listener", "journal"} {
		err := filepath.WalkDir(filepath.Join(top, room), func(path string, entry os.DirEntry, err error) error {
			kind := filepath.Ext(path)
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || kind != ".go" && kind != ".html" && kind != ".md" {
				return err
			}
			for _, m := range quoted.FindAllStringSubmatch(string(testenv.Read(t, path)), -1) {
				found++
				cmd, rest, err := root.Find(strings.Fields(m[1]))
				if err != nil || cmd == root || len(rest) > 0 && cmd.HasSubCommands() {
					t.Errorf("%s: there is no command %q", path, m[0])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 50 {
		t.Errorf("%d commands are quoted", found)
	}
}

// Command lines of this program in shell blocks are valid: commands, options, values of options, and numbers of
// arguments.
func TestCommandLinesInPages(t *testing.T) {
	t.Parallel()
	const top = "../.."
	pages := []string{filepath.Join(top, "README.md"), filepath.Join(top, "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^ *```(sh|shell|bash|console)\\b[^\n]*\n(.*?)^ *```$")
	found := 0
	for _, page := range pages {
		for _, m := range block.FindAllStringSubmatch(string(testenv.Read(t, page)), -1) {
			text := strings.ReplaceAll(m[2], "\\\n", " ")
			for _, line := range strings.Split(text, "\n") {
				line = strings.TrimSpace(line)
				command, prompted := strings.CutPrefix(line, "$ ")
				if !prompted {
					command, prompted = strings.CutPrefix(line, "# ")
				}
				if !prompted && m[1] == "console" {
					continue // a line of output
				}
				for _, words := range simpleCommands(command) {
					if len(words) == 0 || filepath.Base(words[0]) != "swh-scheduler" || strings.Contains(line, " $") && !prompted { // values of the shell's variables
						continue
					}
					found++
					if err := parsed(words[1:]); err != nil {
						t.Errorf("%s: %s: %v", page, line, err)
					}
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d command lines found", found)
	}
}

// parsed returns the error of parsing a command line, without running it.
func parsed(words []string) error {
	root := newRoot(command.New("", io.Discard, io.Discard))
	cmd, rest, err := root.Traverse(withoutGroup(root.Flags(), words))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd == root && len(cmd.Flags().Args()) > 0 || cmd.HasSubCommands() && len(cmd.Flags().Args()) > 0 {
		return errors.New("there is no command " + cmd.Flags().Arg(0))
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

var (
	shellWord  = regexp.MustCompile(`'[^']*'|"[^"]*"|\|\||&&|\$\([^)]*\)|[|;&]|[^\s'"|;&]+`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

// simpleCommands returns the words of each command of a shell line, without sudo, assignments, redirections and a
// comment at the end. Quotes within a word remain.
func simpleCommands(line string) (commands [][]string) {
	var words []string
	places := shellWord.FindAllStringIndex(line, -1)
	for i := 0; i < len(places); i++ {
		word := line[places[i][0]:places[i][1]]
		for i+1 < len(places) && places[i+1][0] == places[i][1] && !strings.ContainsAny(line[places[i+1][0]:places[i+1][0]+1], "|;&") {
			i++ // the word goes on
			word += line[places[i][0]:places[i][1]]
		}
		switch {
		case strings.HasPrefix(word, "#"):
			return append(commands, words)
		case strings.Trim(word, "|;&") == "":
			commands, words = append(commands, words), nil
		case len(words) == 0 && (word == "sudo" || word == "nohup" || word == "time" || assignment.MatchString(word)):
		case len(words) == 0 && word == "-u": // sudo -u USER
			i++
		case strings.ContainsAny(word, "<>"):
			if strings.Trim(word, "0123456789<>&") == "" {
				i++ // the file
			}
		default:
			words = append(words, strings.Trim(word, `'"`))
		}
	}
	return append(commands, words)
}
