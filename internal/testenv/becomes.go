package testenv

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Patience bounds each wait for something that should happen soon. Only a failing test takes
// that long.
const Patience = 5 * time.Minute

// Becomes waits until look returns want, for at most Patience, or until the test fails for
// another reason, as when what Run runs ends. Else the test fails with what look returned last.
func Becomes[T any](t testing.TB, what string, want T, look func() T) {
	t.Helper()
	began, failed, pause := time.Now(), t.Failed(), time.Millisecond
	for got := look(); !reflect.DeepEqual(got, want); got = look() {
		if waited := time.Since(began); waited > Patience || t.Failed() && !failed {
			t.Fatalf("%s: %+v after %s, want %+v", what, got, waited.Round(time.Second), want)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Shows waits until what look returns holds a text.
func Shows(t testing.TB, text string, look func() string) {
	t.Helper()
	Becomes(t, "shown", text, func() string {
		shown := look()
		if strings.Contains(shown, text) {
			return text
		}
		return shown
	})
}
