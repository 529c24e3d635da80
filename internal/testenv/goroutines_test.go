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

// No other goroutine than the test's own may end the test: t.Fatal elsewhere leaves the others waiting. go vet finds
// direct calls in some goroutines. This test also finds handlers, and helpers of the same package, of testenv and of
// parsed with a parameter t. It identifies functions by their names.
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

// elsewhere returns the functions of a statement or call that other goroutines run.
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

// calls returns all calls within n.
func calls(n ast.Node) (found []*ast.CallExpr) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = append(found, call)
		}
		return true
	})
	return found
}

// calledBy returns x and f of a call x.f(…) or x.f[T](…), or f of f(…) or f[T](…).
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

// endsTest reports whether a call is t.Fatal or the like, or calls a helper of this package, testenv or parsed that
// may end the test with a passed t.
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

// fatalHelpers returns the functions of a package that end the test, directly or through each other.
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
