package pytext

import (
	"encoding/json"
	"strings"
	"testing"
)

// A worker's report of a task's arguments is formatted as a call in Python.
func TestCallArguments(t *testing.T) {
	for name, tc := range map[string]struct{ args, kwargs, list, dict, call string }{
		"values": {`[1, "a'b", null]`, `{"url": "https://x", "n": 1.50}`, `[1, "a'b", None]`, `{'url': 'https://x', 'n': 1.5}`, `1, "a'b", None, url='https://x', n=1.5`},
		"none":   {`[]`, `{}`, `[]`, `{}`, ``},
		"texts":  {`"(1, 2)"`, `"{'a': 1}"`, `(1, 2)`, `{'a': 1}`, `1, 2, **{'a': 1}`},
	} {
		list, dict, call, err := Call(json.RawMessage(tc.args), json.RawMessage(tc.kwargs))
		if err != nil || list != tc.list || dict != tc.dict || strings.Join(call, ", ") != tc.call {
			t.Errorf("%s: %s %s %q %v", name, list, dict, call, err)
		}
	}
	for _, bad := range [][2]string{{`5`, `{}`}, {`[]`, `[]`}, {`[`, `{}`}} {
		if _, _, _, err := Call(json.RawMessage(bad[0]), json.RawMessage(bad[1])); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
