package testenv

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// No goroutine of a test ends the test, which only the test's own goroutine can:
// t.Fatal elsewhere leaves the others waiting. go vet sees direct calls in some
// goroutines; this also sees helpers of the same package, of testenv and of parsed that are
// given t, and handlers. Functions are known by their names.
func TestGoroutinesDoNotEndTests(t *testing.T) {
	t.Parallel()
	packages := map[string][]*ast.File{}
	files := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		return err
	})
	if err != nil || len(packages) < 10 {
		t.Fatalf("%d packages, %v", len(packages), err)
	}
	for _, parsed := range packages {
		fatal := fatalHelpers(parsed)
		for _, file := range parsed {
			ast.Inspect(file, func(n ast.Node) bool {
				for _, body := range elsewhere(n) {
					for _, call := range calls(body) {
						if name, ends := endsTest(call, fatal); ends {
							t.Errorf("%s: %s ends the test from another goroutine", files.Position(call.Pos()), name)
						}
					}
				}
				return true
			})
		}
	}
}

// elsewhere is what a statement or call has run by other goroutines.
func elsewhere(n ast.Node) (bodies []ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return []ast.Node{n.Call}
	case *ast.CallExpr:
		on, name := calledBy(n)
		if slices.Contains([]string{"Go", "AfterFunc", "HandlerFunc", "HandleFunc"}, name) || on == "testenv" && name == "Run" {
			for _, argument := range n.Args {
				bodies = append(bodies, argument)
			}
		}
	}
	return bodies
}

// calls are all calls within n.
func calls(n ast.Node) (found []*ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = append(found, call)
		}
		return true
	})
	return found
}

// calledBy is x and f of a call x.f(…), or f of f(…); also of x.f[T](…) and f[T](…).
func calledBy(call *ast.CallExpr) (on, name string) {
	called := call.Fun
	if of, ok := called.(*ast.IndexExpr); ok {
		called = of.X
	}
	switch f := called.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			on = x.Name
		}
		return on, f.Sel.Name
	}
	return "", ""
}

func isTest(name string) bool { return name == "t" || name == "tb" || name == "b" || name == "f" }

// endsTest reports whether a call is t.Fatal or the like, or of a helper that does
// this with the t that it is given, as those of testenv and parsed may.
func endsTest(call *ast.CallExpr, helpers map[string]bool) (name string, ends bool) {
	on, name := calledBy(call)
	if isTest(on) && slices.Contains([]string{"Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow"}, name) {
		return on + "." + name, true
	}
	given := len(call.Args) > 0
	if given {
		argument, ok := call.Args[0].(*ast.Ident)
		given = ok && isTest(argument.Name)
	}
	return name, given && (helpers[name] || on == "testenv" || on == "parsed")
}

// fatalHelpers are the functions of a package that end the test, themselves or by
// others of them.
func fatalHelpers(parsed []*ast.File) map[string]bool {
	helpers := map[string]bool{}
	for before := -1; before != len(helpers); {
		before = len(helpers)
		for _, file := range parsed {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				for _, call := range calls(f.Body) {
					if _, ends := endsTest(call, helpers); ends {
						helpers[f.Name.Name] = true
					}
				}
			}
		}
	}
	return helpers
}
