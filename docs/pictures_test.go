package docs_test

import (
	"encoding/xml"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv"
)

// The pictures of architecture.md are well-formed SVG with a title, and have colours for light and dark pages.
func TestPictures(t *testing.T) {
	t.Parallel()
	page := string(testenv.Read(t, filepath.Join("explanation", "architecture.md")))
	for _, name := range []string{"topology.svg", "one-task.svg", "states.svg"} {
		picture := string(testenv.Read(t, filepath.Join("explanation", name)))
		d := xml.NewDecoder(strings.NewReader(picture))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range []string{"<title>", "prefers-color-scheme:dark"} {
			if !strings.Contains(picture, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		if !strings.Contains(page, "]("+name+")") {
			t.Errorf("architecture.md doesn't show %s", name)
		}
	}
}
