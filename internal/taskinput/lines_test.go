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

// A line that is too long ends the reading, with its number.
func TestLongURLs(t *testing.T) {
	t.Parallel()
	for url, err := range URLs(strings.NewReader("https://a\n" + strings.Repeat("b", 1<<20+1))) {
		if err != nil && err.Error() != "line 2 of the URLs has more than 1048576 bytes" || err == nil && url != "https://a" {
			t.Errorf("%.100q, %v", url, err)
		}
	}
}
