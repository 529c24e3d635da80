package model_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
)

func TestSpellings(t *testing.T) {
	t.Parallel()
	for given, want := range map[string][]string{
		"https://a.example/u/p": {
			"https://a.example/u/p", "https://a.example/u/p.git", "https://a.example/u/p/",
			"http://a.example/u/p", "http://a.example/u/p.git", "http://a.example/u/p/",
		},
		"http://A.example/u/P.git/": {
			"http://A.example/u/P.git/", "http://a.example/u/P", "http://a.example/u/P.git", "http://a.example/u/P/",
			"https://a.example/u/P", "https://a.example/u/P.git", "https://a.example/u/P/",
		},
		"svn://a.example/p/": {"svn://a.example/p/", "svn://a.example/p"},
		"svn://a.example/p":  {"svn://a.example/p"},
		"nothing":            {"nothing"},
	} {
		if diff := cmp.Diff(want, model.Spellings(given)); diff != "" {
			t.Errorf("%s: %s", given, diff)
		}
	}
}

func TestHintCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hint model.Hint
		want string // in the error; "": valid
	}{
		{model.Hint{URL: "https://a.example/p", Source: "github"}, ""},
		{model.Hint{URL: "pserver://anonymous@a.example/cvs/p", VisitType: "cvs", Source: "cli"}, ""},
		{model.Hint{URL: "", Source: "cli"}, "empty"},
		{model.Hint{URL: "https://a.example/" + strings.Repeat("p", 2048), Source: "cli"}, "bytes"},
		{model.Hint{URL: "https://a.example/\xff", Source: "cli"}, "UTF-8"},
		{model.Hint{URL: "https://a.example/a b", Source: "cli"}, "blank"},
		{model.Hint{URL: "https://a.example/\x00", Source: "cli"}, "control"},
		{model.Hint{URL: "https://a.example/\u2028", Source: "cli"}, "blank"},
		{model.Hint{URL: "a.example/p", Source: "cli"}, "host"},
		{model.Hint{URL: "file:///etc/passwd", Source: "cli"}, "host"},
		{model.Hint{URL: `https://evil.example\.a.example/p`, Source: "cli"}, "backslash"},
		{model.Hint{URL: "https://u:secret@a.example/p", Source: "cli"}, "password"},
		{model.Hint{URL: "https://a.example/p", VisitType: "g t", Source: "cli"}, "visit type"},
		{model.Hint{URL: "https://a.example/p"}, "source"},
		{model.Hint{URL: "https://a.example/p", Source: "a\nb"}, "source"},
	} {
		err := c.hint.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.hint, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes a password: %v", err)
		}
	}
}

// Hints create origins only of public hosts.
func TestMayCreate(t *testing.T) {
	t.Parallel()
	u := model.UnknownHints{Lister: "hints"}
	for url, want := range map[string]bool{
		"https://forge.example/u/p": true, "http://forge.example:8080/p.git": true,
		"https://localhost/p": false, "https://127.0.0.1/p": false, "https://[::1]/p": false, "https://0x7f.1/p": false, "https://2130706433/p": false,
		"https://127.1/p": false, "https://127.0.0.0x1/p": false, "https://127.0.0.0ｘ1/p": false, "https://forge.xn--p1ai/p": true,
		"git://forge.example/p": false, "https://me@forge.example/p": false, "https://forge.example": false, "https://forge.example/": false,
		"https://forge/p": false, "://": false,
	} {
		if got := u.MayCreate(model.Hint{URL: url}); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}

func FuzzHint(f *testing.F) {
	for _, url := range []string{"https://a.example/u/p.git", "http://a.example//", "svn://x/", "://", "https://u:p@h/", "HTTP://H"} {
		f.Add(url, "git", "cli")
	}
	f.Fuzz(func(t *testing.T, url, visitType, source string) {
		all := model.Spellings(url)
		if all[0] != url || len(all) > 7 {
			t.Errorf("%q has the spellings %q", url, all)
		}
		if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != len(all) {
			t.Errorf("%q has a spelling twice: %q", url, all)
		}
		h := model.Hint{URL: url, VisitType: visitType, Source: source}
		if h.Check() == nil && (strings.ContainsAny(url, "\x00\n ") || !utf8.ValidString(url)) {
			t.Errorf("%q is valid", url)
		}
		model.UnknownHints{Lister: "hints"}.MayCreate(h)
	})
}
