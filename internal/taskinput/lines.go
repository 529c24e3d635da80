package taskinput

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"unicode/utf8"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/pytext"
)

// LineForm maps the columns of a line to keyword arguments, and adds further ones to each task, as the Python
// scheduler does (cli/origin_utils.py).
type LineForm struct {
	columns []string
	extra   dispatch.Kwargs
	github  bool // add the lister of origins on GitHub
}

// FormOf returns the form of the lines for a task type. options are the user's arguments for all tasks.
func FormOf(taskType string, options json.RawMessage) (form LineForm, err error) {
	form.columns = []string{"url"}
	archive := []string{"origin_url", "archive_path"}
	switch taskType {
	case "load-svn":
		var given struct{ Type *string }
		if json.Unmarshal(options, &given) == nil && given.Type != nil {
			if *given.Type != "svn" {
				form.columns = archive
			}
			defer func() { form.extra.Delete("type") }() // not an argument of the loader
		}
	case "load-hg-from-archive-mercurial":
		form.columns = archive
		form.extra.Set("visit_date", json.RawMessage(`"Tue, 3 May 2016 17:16:32 +0200"`))
	case "load-hg-bitbucket":
		form.columns = []string{"url", "directory", "visit_date"}
	case "load-git-normal":
		form.github = true
	case "load-git-large":
		form.github = true
		form.extra.Set("pack_size_bytes", json.RawMessage(`34359738368`))
		form.extra.Set("verify_certs", json.RawMessage(`false`))
	}
	err = form.extra.Merge(options)
	return form, err
}

// Kwargs returns the keyword arguments of the task for a line.
func (f LineForm) Kwargs(fields []string) (json.RawMessage, error) {
	var kwargs dispatch.Kwargs
	for i, name := range f.columns[:min(len(fields), len(f.columns))] {
		text, err := pytext.PlainJSON(fields[i])
		if err != nil {
			return nil, err
		}
		kwargs.Set(name, text)
	}
	if err := kwargs.Merge(f.extra.JSON()); err != nil {
		return nil, err
	}
	if f.github && isOnGitHub(fields[0]) {
		kwargs.Set("lister_name", json.RawMessage(`"github"`))
		kwargs.Set("lister_instance_name", json.RawMessage(`"github"`))
	}
	return kwargs.JSON(), nil
}

func isOnGitHub(origin string) bool {
	parsed, err := url.Parse(strings.TrimSpace(origin))
	return err == nil && parsed.User == nil && parsed.Host == "github.com"
}

// URLs reads a URL from each line, and skips blank lines.
func URLs(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		const longest = 1 << 20
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longest)
		number := 0
		for lines.Scan() {
			number++
			url := strings.TrimSpace(lines.Text())
			if !utf8.ValidString(url) {
				yield("", fmt.Errorf("line %d of the URLs is not UTF-8", number))
				return
			}
			if url != "" && !yield(url, nil) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield("", fmt.Errorf("line %d of the URLs has more than %d bytes", number+1, longest))
		} else if err != nil {
			yield("", fmt.Errorf("line %d of the URLs: %w", number+1, err))
		}
	}
}
