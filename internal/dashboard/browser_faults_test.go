package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The browser's checks find the faults for which other tests use them: bad contrast, errors of scripts, violations of
// the content security policy, and requests to other hosts.
func TestBrowserFindsFaults(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
		switch r.URL.Path {
		case "/script.js":
			_, _ = w.Write([]byte("throw new Error('thrown')"))
		default:
			_, _ = w.Write([]byte(`<!doctype html><title>x</title><p style="color: #aaa; background: white">pale</p><img src="https://elsewhere.example/x.png">
				<script src="/script.js"></script><script>alert(1)</script>`))
		}
	}))
	defer server.Close()
	tab := startBrowser(t).open(800, 600, false)
	tab.visit(server.URL)
	faults := strings.Join(tab.faults(""), "\n")
	for _, want := range []string{"color-contrast", "image-alt", "html-has-lang"} {
		if !strings.Contains(faults, want) {
			t.Errorf("%s is not among the faults:\n%s", want, faults)
		}
	}
	if faults := strings.Join(tab.faults(colours), "\n"); !strings.Contains(faults, "color-contrast") || strings.Contains(faults, "image-alt") {
		t.Errorf("the faults of colours are\n%s", faults)
	}
	problems := strings.Join(tab.newProblems(), "\n")
	for _, want := range []string{"thrown", "Content Security Policy", "a request to https://elsewhere.example"} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q is not among the problems:\n%s", want, problems)
		}
	}
	if png := tab.screenshot(); !strings.HasPrefix(string(png), "\x89PNG") {
		t.Error("no PNG")
	}
}
