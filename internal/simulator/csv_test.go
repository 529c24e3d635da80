package simulator

import (
	"strings"
	"testing"
)

// What a stranger's file has in place of a header is shown so that it can't steer a terminal, and cut.
func TestOddHeaders(t *testing.T) {
	t.Parallel()
	err := ReadCSV(strings.NewReader("\x1b[2J\x00"+strings.Repeat("x", 1<<20)), []string{"runtime"}, nil)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\x00") || len(err.Error()) > 2000 || !strings.Contains(err.Error(), `line 1: no column runtime among \u001b[2J`) {
		t.Errorf("%d bytes: %.200q", len(err.Error()), err)
	}
}
