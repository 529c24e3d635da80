package simulator

import (
	"strings"
	"testing"
)

// An unknown header is cut and shown without control characters.
func TestUnknownHeaders(t *testing.T) {
	t.Parallel()
	err := ReadCSV(strings.NewReader("\x1b[2J\x00"+strings.Repeat("x", 1<<20)), []string{"runtime"}, nil)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\x00") || len(err.Error()) > 2000 || !strings.Contains(err.Error(), `line 1: no column runtime among \u001b[2J`) {
		t.Errorf("%d bytes: %.200q", len(err.Error()), err)
	}
}
