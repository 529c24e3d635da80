package dashboard_test

import "testing"

// Figures of a source that is old are grey: here the journal's, of which nothing is known. Those of other sources aren't.
func TestFiguresOfOldSourcesAreGrey(t *testing.T) {
	t.Parallel()
	address := site(t, archive...)
	tab := startBrowser(t).open(1280, 900, false)
	tab.visit(address + "/")
	tab.until(`document.querySelector(".strip li.journal.old")`)
	grey := func(fragment string) (is bool) {
		t.Helper()
		tab.eval(`getComputedStyle(document.querySelector("[data-fragment=`+fragment+`]")).fontStyle === "italic"`, &is)
		return is
	}
	for fragment, want := range map[string]bool{"visits": true, "tasks": false, "past": false, "flow": false, "wrong": false} {
		if grey(fragment) != want {
			t.Errorf("%s: grey is %v", fragment, !want)
		}
	}
	for source, fragments := range map[string][]string{"events": {"tasks", "past", "flow"}, "broker": {"tasks", "flow"}, "database": {"wrong", "visits"}} {
		tab.eval(`document.querySelector(".strip li.`+source+`").classList.add("old"); 0`, nil)
		for _, fragment := range fragments {
			if !grey(fragment) {
				t.Errorf("%s isn't grey, though %s is old", fragment, source)
			}
		}
		tab.eval(`document.querySelector(".strip li.`+source+`").classList.remove("old"); 0`, nil)
	}
}
