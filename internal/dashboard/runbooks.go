package dashboard

import (
	"context"
	"html/template"
	"regexp"
	"strings"

	"swh-scheduler/docs"
)

var runbooksPage = Page{Path: "/runbooks", Title: "Runbooks", Menu: "Runbooks", Template: "runbooks.html", Data: func(context.Context, *Request) (any, error) {
	return runbooksData{runbooks}, nil
}}

type runbooksData struct {
	Runbooks []runbook `json:"runbooks"`
}

// runbook says what an alert means, and what to do.
type runbook struct {
	Alert string   `json:"alert"`
	Means []string `json:"means"` // paragraphs of Markdown
	Steps []string `json:"steps"`
}

// runbooks are those of docs/runbooks.md.
var runbooks = readRunbooks(docs.Runbooks)

var step = regexp.MustCompile(`^\d+\. `)

// readRunbooks reads the sections of a page: paragraphs, and numbered steps of a line each.
func readRunbooks(page string) (all []runbook) {
	_, page, _ = strings.Cut(page, "\n## ")
	for section := range strings.SplitSeq(page, "\n## ") {
		lines := strings.Split(strings.TrimSpace(section), "\n")
		r := runbook{Alert: lines[0]}
		for _, line := range lines[1:] {
			if number := step.FindString(line); number != "" {
				r.Steps = append(r.Steps, strings.TrimPrefix(line, number))
			} else if line != "" {
				r.Means = append(r.Means, line)
			}
		}
		all = append(all, r)
	}
	return all
}

// inline matches code, and links, of which the text is shown.
var inline = regexp.MustCompile("`([^`]+)`" + `|\[([^\]]+)\]\([^)]*\)`)

// markdown returns a line of Markdown as HTML: its code as code, its links as their texts.
func markdown(line string) template.HTML {
	var b strings.Builder
	end := 0
	for _, m := range inline.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(template.HTMLEscapeString(line[end:m[0]]))
		if m[2] >= 0 {
			b.WriteString("<code>" + template.HTMLEscapeString(line[m[2]:m[3]]) + "</code>")
		} else {
			b.WriteString(string(markdown(line[m[4]:m[5]])))
		}
		end = m[1]
	}
	b.WriteString(template.HTMLEscapeString(line[end:]))
	return template.HTML(b.String())
}
