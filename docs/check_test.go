package docs_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/testenv"
)

// sections are those of the configuration. A block of YAML that has only these is read as one.
var sections = strings.Fields(`scheduler celery database rabbitmq journal rpc_serve dashboard scheduling_policy no_origins_scheduled_backoff
	queue_full_backoff lost_after wanted_workers archive shares hosters hints gone_origins priority_ageing lanes metrics sentry
	visit_rules
	failures_keep_date update_metrics_after`)

// past is the changelog of the time before 1.0.0, as it was written. The site and the check of style leave it out.
const past = "docs/devel/before-1.0.md"

// mostWords is how many words a sentence has at most.
const mostWords = 25

// page is a document, by what the checks read.
type page struct {
	path  string // from the top of the repository
	lines []line // without generated parts and front matter
	whole string
}

// line is a line of a page that is no part of a generated table.
type line struct {
	number int
	text   string
	fence  int // which fenced block the line is in, from 1; 0 if in none
	opens  bool
}

// readPages returns the README, CONTRIBUTING.md and all pages below docs.
func readPages(t *testing.T) []page {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(os.DirFS(".."), "docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var pages []page
	for _, path := range paths {
		pages = append(pages, newPage(path, string(testenv.Read(t, filepath.Join("..", path)))))
	}
	return pages
}

var (
	partBegin = regexp.MustCompile(`^<!-- ([a-z-]+): .*-->$`)
	fenceLine = regexp.MustCompile("^ *(```+|~~~+) *(.*)$")
)

func newPage(path, text string) page {
	p := page{path: path, whole: text}
	fence, fences, end, comment := "", 0, "", false
	for i, text := range strings.Split(text, "\n") {
		switch m, part := fenceLine.FindStringSubmatch(text), partBegin.FindStringSubmatch(text); {
		case end != "":
			if text == end {
				end = ""
			}
		case fence == "" && part != nil:
			end = "<!-- end of " + part[1] + " -->"
		case fence == "" && (comment || strings.HasPrefix(text, "<!--")):
			comment = !strings.Contains(text, "-->")
		case fence == "" && m != nil:
			fences++
			fence = m[1]
			p.lines = append(p.lines, line{i + 1, m[2], fences, true})
		case m != nil && m[1] == fence && m[2] == "":
			fence = ""
		case fence != "":
			p.lines = append(p.lines, line{i + 1, text, fences, false})
		default:
			p.lines = append(p.lines, line{i + 1, text, 0, false})
		}
	}
	return p
}

// block is a fenced block.
type block struct {
	number         int // of the line that opens it
	language, text string
}

func (p page) blocks() (blocks []block) {
	for _, l := range p.lines {
		switch {
		case l.opens:
			blocks = append(blocks, block{l.number, l.text, ""})
		case l.fence > 0:
			blocks[len(blocks)-1].text += l.text + "\n"
		}
	}
	return blocks
}

var headingLine = regexp.MustCompile(`^(#{1,6}) +(.*?) *#*$`)

// sentence is a sentence of prose, with the line on which its paragraph begins.
type sentence struct {
	number int
	text   string
}

var (
	inlineCode = regexp.MustCompile("``[^`]+``|`[^`]*`")
	markup     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|<[^>]+>|\]\([^)]*\)|[*_]{2}|[\[\]]`)
	listItem   = regexp.MustCompile(`^ *(?:[-*+]|\d+[.)]) +`)
	ended      = regexp.MustCompile(`[.!?][)"”*]*(?: +|$)`)
	shortened  = regexp.MustCompile(`(?:\b(?:e\.g|i\.e|cf|etc|vs|no|resp)\.|\b[A-Z]\.)$`)
)

// sentences returns the sentences of paragraphs, list items and quotes, with code as one word and links as their texts.
func (p page) sentences() (sentences []sentence) {
	var paragraph strings.Builder
	begin := 0
	flush := func() {
		text := inlineCode.ReplaceAllString(paragraph.String(), "CODE")
		text = markup.ReplaceAllString(text, "")
		for text = strings.TrimSpace(text); text != ""; {
			length := len(text)
			for _, end := range ended.FindAllStringIndex(text, -1) {
				if !shortened.MatchString(strings.TrimSpace(text[:end[1]])) {
					length = end[1]
					break
				}
			}
			sentences = append(sentences, sentence{begin, strings.TrimSpace(text[:length])})
			text = strings.TrimSpace(text[length:])
		}
		paragraph.Reset()
	}
	for _, l := range p.lines {
		text := strings.TrimLeft(l.text, "> ")
		switch {
		case l.fence > 0 || text == "" || text[0] == '|' || (strings.HasPrefix(l.text, "    ") || strings.HasPrefix(l.text, "\t")) && paragraph.Len() == 0 || headingLine.MatchString(l.text) || strings.HasPrefix(text, "<"):
			flush()
			continue
		case listItem.MatchString(l.text):
			flush()
			text = listItem.ReplaceAllString(l.text, "")
		}
		if paragraph.Len() == 0 {
			begin = l.number
		}
		paragraph.WriteString(text + " ")
	}
	flush()
	return sentences
}

// wordsIn counts what has a letter or a digit.
func wordsIn(text string) (n int) {
	for _, w := range strings.Fields(text) {
		if strings.ContainsFunc(w, func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) {
			n++
		}
	}
	return n
}

// quoting are the pages that quote words and sentences which style.md refuses.
var quoting = []string{"docs/devel/style.md", "docs/devel/evidence/sentences.md"}

// findings returns what a page has against the style, a line each.
func (p page) findings() (all []string) {
	find := func(number int, format string, args ...any) {
		all = append(all, fmt.Sprintf("%s:%d: %s", p.path, number, fmt.Sprintf(format, args...)))
	}
	for _, s := range p.sentences() {
		if n := wordsIn(s.text); n > mostWords {
			find(s.number, "a sentence of %d words: %s", n, s.text)
		}
		if !slices.Contains(quoting, p.path) {
			for _, w := range words {
				if found := w.found.FindString(s.text); found != "" {
					find(s.number, "%q, better: %s: %s", found, w.better, s.text)
				}
			}
		}
	}
	level, seen := 0, map[string]bool{}
	for _, l := range p.lines {
		m := headingLine.FindStringSubmatch(l.text)
		if m == nil || l.fence > 0 {
			continue
		}
		switch n := len(m[1]); {
		case n == 1 && level > 0:
			find(l.number, "a second heading of level 1")
		case n > level+1:
			find(l.number, "a heading of level %d below one of level %d", n, level)
		}
		level = len(m[1])
		if seen[anchor(m[2])] {
			find(l.number, "a second heading %q", m[2])
		}
		seen[anchor(m[2])] = true
	}
	if level == 0 {
		find(1, "no heading")
	}
	if (strings.HasPrefix(p.path, "docs/how-to/") || strings.HasPrefix(p.path, "docs/tutorials/")) && !regexp.MustCompile(`(?m)\A# .*\n\n(?:\*\*)?Intended audience:`).MatchString(p.whole) {
		find(1, "no line \"Intended audience: …\" below the heading")
	}
	for _, b := range p.blocks() {
		if b.language == "" {
			find(b.number, "a block without a language")
		}
		if b.language == "yaml" {
			if err := readYAML(b.text); err != nil {
				find(b.number, "%v", err)
			}
		}
	}
	return all
}

// readYAML returns why YAML can't be read. A block with a section scheduler is a configuration, and is read as one;
// so is one whose keys are sections of the configuration, beside a scheduler.
func readYAML(text string) error {
	var top map[string]any
	if err := yaml.Unmarshal([]byte(text), &top); err != nil {
		var list []any
		if yaml.Unmarshal([]byte(text), &list) == nil {
			return nil
		}
		return err
	}
	if len(top) == 0 {
		return errors.New("a block of YAML without a key")
	}
	for key := range top {
		if !slices.Contains(sections, key) {
			return nil
		}
	}
	if top["scheduler"] == nil {
		text += "\nscheduler: {cls: postgresql, db: dbname=x}\n"
	}
	directory, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "scheduler.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, warnings, err := config.Load(file)
	if err == nil && len(warnings) > 0 {
		err = fmt.Errorf("%v", warnings)
	}
	return err
}

// anchor returns the anchor of a heading, as GitHub and MyST make it.
func anchor(heading string) string {
	heading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading, "$1")
	heading = strings.NewReplacer("`", "", "*", "").Replace(heading)
	heading = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(heading, " ", "-")
}

// All pages are as docs/devel/style.md asks.
func TestStyle(t *testing.T) {
	t.Parallel()
	for _, p := range readPages(t) {
		if p.path == past {
			continue
		}
		for _, finding := range p.findings() {
			t.Error(finding)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	idOf    = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeIn  = regexp.MustCompile("`[^`\n]*`")
	address = regexp.MustCompile(`^[a-z]+:`)
)

// Relative links lead to files and headings that are there, on all pages, generated parts included.
func TestLinks(t *testing.T) {
	t.Parallel()
	anchors := map[string]map[string]bool{}
	of := func(file string) map[string]bool {
		if anchors[file] == nil {
			anchors[file] = map[string]bool{}
			text := fenced.ReplaceAllString(string(testenv.Read(t, filepath.Join("..", file))), "")
			for _, l := range strings.Split(text, "\n") {
				if m := headingLine.FindStringSubmatch(l); m != nil {
					anchors[file][anchor(m[2])] = true
				}
			}
			for _, m := range idOf.FindAllStringSubmatch(text, -1) {
				anchors[file][m[1]] = true
			}
		}
		return anchors[file]
	}
	for _, p := range readPages(t) {
		text := codeIn.ReplaceAllString(fenced.ReplaceAllString(p.whole, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := cmp.Or(m[1], m[2])
			if address.MatchString(to) {
				continue
			}
			file, fragment, _ := strings.Cut(to, "#")
			if file == "" {
				file = p.path
			} else {
				file = path.Join(path.Dir(p.path), file)
			}
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s: there is no %s", p.path, to)
			} else if fragment != "" && strings.HasSuffix(file, ".md") && !of(file)[fragment] {
				t.Errorf("%s: there is no heading of %s", p.path, to)
			}
		}
	}
}

// parts are the directories of docs in their order, each with its pages that come first.
var parts = []struct {
	directory, title string
	first            []string
}{
	{"tutorials", "Tutorials", nil},
	{"how-to", "How-to", []string{"install", "replace", "upgrade"}},
	{"reference", "Reference", []string{"commands", "configuration"}},
	{"explanation", "Explanation", []string{"architecture", "guarantees"}},
	{"devel", "Devel", nil},
	{"devel/evidence", "Evidence", nil},
}

// docs/index.md lists all pages by their headings, and for Sphinx by their names. SWH_TEST_UPDATE=1 writes both.
func TestIndex(t *testing.T) {
	t.Parallel()
	pages := readPages(t)
	var list, tree strings.Builder
	var listed []string
	for _, part := range parts {
		var lines, names, entries []string
		for _, name := range part.first {
			names = append(names, "docs/"+part.directory+"/"+name+".md")
		}
		for _, p := range pages {
			if path.Dir(p.path) == "docs/"+part.directory && p.path != past && !slices.Contains(names, p.path) {
				names = append(names, p.path)
			}
		}
		listed = append(listed, names...)
		for _, name := range names {
			if i := slices.IndexFunc(pages, func(p page) bool { return p.path == name }); i >= 0 {
				if m := regexp.MustCompile(`(?m)^# (.*)$`).FindStringSubmatch(pages[i].whole); m != nil {
					file := strings.TrimPrefix(name, "docs/")
					lines = append(lines, fmt.Sprintf("- [%s](%s)\n", m[1], file))
					entries = append(entries, strings.TrimSuffix(file, ".md"))
				}
			}
		}
		if lines != nil {
			fmt.Fprintf(&list, "\n## %s\n\n%s", part.title, strings.Join(lines, ""))
			fmt.Fprintf(&tree, "```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n\n", part.title, strings.Join(entries, "\n"))
		}
	}
	for _, p := range pages {
		if path.Dir(p.path) != "." && p.path != "docs/index.md" && p.path != past && !slices.Contains(listed, p.path) {
			t.Errorf("%s is in no directory of parts", p.path)
		}
	}
	testenv.Generated(t, "index.md", "pages", list.String()+"\n"+tree.String())
}
