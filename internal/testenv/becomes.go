package testenv

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Patience bounds each wait for something that should happen soon. Only a failing test waits that long.
const Patience = 5 * time.Minute

// Becomes waits until current returns want. It fails the test with the last result after Patience, or when the test has
// failed otherwise, such as when a function of Run ends.
func Becomes[T any](t testing.TB, what string, want T, current func() T) {
	t.Helper()
	began, failed, pause := time.Now(), t.Failed(), time.Millisecond
	for got := current(); !reflect.DeepEqual(got, want); got = current() {
		if waited := time.Since(began); waited > Patience || t.Failed() && !failed {
			t.Fatalf("%s: %+v after %s, want %+v", what, got, waited.Round(time.Second), want)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Shows waits until the result of current contains a text.
func Shows(t testing.TB, text string, current func() string) {
	t.Helper()
	Becomes(t, "shown", text, func() string {
		shown := current()
		if strings.Contains(shown, text) {
			return text
		}
		return shown
	})
}
