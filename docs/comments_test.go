package docs_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// commentBounds has the most findings in the doc comments of exported declarations, by directory.
const commentBounds = "testdata/comments.txt"

// mostInComment is how many words a sentence of a doc comment has before it counts.
const mostInComment = 40

// Doc comments of exported declarations and of packages have no more long sentences and no more words to avoid than
// testdata/comments.txt says by directory. SWH_TEST_UPDATE=1 lowers the numbers, and never raises one.
func TestComments(t *testing.T) {
	t.Parallel()
	counts, examples := map[string]int{}, map[string][]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		directory := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
		for _, comment := range docComments(file) {
			for _, s := range newPage("", comment).sentences() {
				if wordsIn(s.text) > mostInComment {
					counts[directory]++
					examples[directory] = append(examples[directory], path+": a sentence of more than 40 words: "+s.text)
				}
				for _, w := range words {
					if found := w.found.FindString(s.text); found != "" {
						counts[directory]++
						examples[directory] = append(examples[directory], fmt.Sprintf("%s: %q, better: %s: %s", path, found, w.better, s.text))
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(testenv.Read(t, commentBounds))); lines.Scan(); {
		var directory string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &directory, &n); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		bounds[directory] = n
	}
	for directory, n := range counts {
		if n > bounds[directory] {
			t.Errorf("%s has %d findings, more than %d:\n%s", directory, n, bounds[directory], strings.Join(examples[directory], "\n"))
		}
	}
	if os.Getenv("SWH_TEST_UPDATE") == "" {
		return
	}
	var text strings.Builder
	for _, directory := range slices.Sorted(maps.Keys(bounds)) {
		if n := min(bounds[directory], counts[directory]); n > 0 {
			fmt.Fprintf(&text, "%s %d\n", directory, n)
		}
	}
	if err := os.WriteFile(commentBounds, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// docComments returns the comments of a file's package, exported functions and methods, and groups of types,
// constants and variables with an exported name.
func docComments(file *ast.File) (comments []string) {
	add := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc != nil && (names == nil || slices.ContainsFunc(names, (*ast.Ident).IsExported)) {
			comments = append(comments, doc.Text())
		}
	}
	add(file.Doc)
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			add(d.Doc, d.Name)
		case *ast.GenDecl:
			var names []*ast.Ident
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name)
					add(s.Doc, s.Name)
				case *ast.ValueSpec:
					names = append(names, s.Names...)
					add(s.Doc, s.Names...)
				}
			}
			if names != nil {
				add(d.Doc, names...)
			}
		}
	}
	return comments
}
