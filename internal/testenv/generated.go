package testenv

import (
	"bytes"
	"os"
	"testing"
)

// Generated checks that the part name of the page file is text. The part lies between the lines
// "<!-- NAME: COMMAND -->" and "<!-- end of NAME -->", where COMMAND writes it. With SWH_TEST_UPDATE in the
// environment Generated writes the part instead.
func Generated(t testing.TB, file, name, text string) {
	t.Helper()
	page := Read(t, file)
	begin, end := bytes.Index(page, []byte("<!-- "+name+": ")), bytes.Index(page, []byte("<!-- end of "+name+" -->\n"))
	if begin < 0 || end < begin {
		t.Fatalf("%s has no place for its part %q", file, name)
	}
	begin += bytes.IndexByte(page[begin:], '\n') + 1
	switch {
	case string(page[begin:end]) == text:
	case os.Getenv("SWH_TEST_UPDATE") != "":
		whole := string(page[:begin]) + text + string(page[end:])
		if err := os.WriteFile(file, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the part %q of %s is not what the code says; SWH_TEST_UPDATE=1 writes it:\n%s", name, file, text)
	}
}
