package main

import (
	"encoding/json"
	"net/url"
	"strings"

	"swh-scheduler/internal/dispatch"
)

// lineForm says what the columns of a line are, by the names of the loader's
// keyword arguments, and which other arguments each task has. They are the
// peer's (cli/origin_utils.py).
type lineForm struct {
	columns []string
	extra   dispatch.Kwargs
	github  bool // say of origins on GitHub which lister lists them
}

// formOf is the form of the lines for a task type, where options are what the
// user passes to each task.
func formOf(taskType string, options json.RawMessage) (form lineForm, err error) {
	form.columns = []string{"url"}
	archive := []string{"origin_url", "archive_path"}
	switch taskType {
	case "load-svn":
		var given struct{ Type *string }
		if json.Unmarshal(options, &given) == nil && given.Type != nil {
			if *given.Type != "svn" {
				form.columns = archive
			}
			defer func() { form.extra.Delete("type") }() // which is not the loader's
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

// kwargs are the keyword arguments of the task for a line.
func (f lineForm) kwargs(fields []string) (json.RawMessage, error) {
	var kwargs dispatch.Kwargs
	for i, name := range f.columns[:min(len(fields), len(f.columns))] {
		text, err := plainJSON(fields[i])
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
