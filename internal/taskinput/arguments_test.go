package taskinput

import (
	"encoding/json"
	"strings"
	"testing"
)

// Any words after a task type become JSON or an error.
func FuzzParseArguments(f *testing.F) {
	f.Add("a=1 b [c] d=")
	f.Add("a={x: [1, 2.5]} =3 '")
	f.Fuzz(func(t *testing.T, words string) {
		arguments, err := ParseArguments(strings.Split(words, " "))
		if err == nil && (!json.Valid(arguments.Args) || !json.Valid(arguments.Kwargs)) {
			t.Errorf("%q: got %s and %s", words, arguments.Args, arguments.Kwargs)
		}
	})
}
