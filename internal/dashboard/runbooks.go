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

// runbook contains the meaning of an alert and the steps to take.
type runbook struct {
	Alert string   `json:"alert"`
	Means []string `json:"means"` // paragraphs of Markdown
	Steps []string `json:"steps"`
}

// runbooks are the runbooks of docs/how-to/runbooks.md.
var runbooks = readRunbooks(docs.Runbooks)

var step = regexp.MustCompile(`^\d+\. `)

// readRunbooks parses a page whose sections have paragraphs and numbered steps, each on one line.
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

var (
	markdownLink = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	markdownCode = regexp.MustCompile("`([^`]+)`")
)

// markdown converts a line of Markdown to HTML. It marks code and replaces links by their texts.
func markdown(line string) template.HTML {
	html := markdownLink.ReplaceAllString(template.HTMLEscapeString(line), "$1")
	return template.HTML(markdownCode.ReplaceAllString(html, "<code>$1</code>"))
}
