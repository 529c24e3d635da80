package taskinput

import (
	"slices"
	"strings"
	"testing"
)

// A line that is not UTF-8 ends the reading, as PostgreSQL stores no such text.
func TestURLs(t *testing.T) {
	t.Parallel()
	var urls []string
	for url, err := range URLs(strings.NewReader("https://a\n\n  https://b \nhttps://c\xff\nhttps://d\n")) {
		if err != nil {
			url = err.Error()
		}
		urls = append(urls, url)
	}
	if want := []string{"https://a", "https://b", "line 4 of the URLs is not UTF-8"}; !slices.Equal(urls, want) {
		t.Errorf("got %q, want %q", urls, want)
	}
}
