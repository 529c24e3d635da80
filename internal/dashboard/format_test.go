package dashboard

import "testing"

// Arguments are printed in a form that the search reads as the same arguments.
func TestArgumentsAreAsTheSearchTakesThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"args": [], "kwargs": {"url": "https://example.org/x?a=b", "visit": 3}}`:              `url=https://example.org/x?a=b visit=3`,
		`{"args": ["a", 1, "a=b", "", "yes", "12"], "kwargs": {}}`:                              `a 1 "a=b" "" "yes" "12"`,
		`{"args": [], "kwargs": {"a": "", "b": "two words", "c": [1,2], "d": null, "e": "on"}}`: `a= b="two words" c=[1,2] d=null e="on"`,
		`{"args": [], "kwargs": {"url": "https://cut.o`:                                         `{"args": [], "kwargs": {"url": "https://cut.o`,
	} {
		if got := arguments(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
