package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"swh-scheduler/internal/model"
)

// A loader gets the arguments of the Python scheduler's create_origin_task: the same keys in the same order, with
// extra arguments in their place, and numbers as the database has them.
func TestLoaderKwargs(t *testing.T) {
	for name, tc := range map[string]struct {
		instance, extra, want string
	}{
		"plain":         {"forge", `{}`, `{"url":"https://x/r","lister_name":"gitea","lister_instance_name":"forge"}`},
		"no instance":   {"", `{}`, `{"url":"https://x/r","lister_name":"gitea","lister_instance_name":null}`},
		"extra":         {"f", `{"b": 1.0, "a": [1, {"x": null}]}`, `{"url":"https://x/r","lister_name":"gitea","lister_instance_name":"f","b":1.0,"a":[1, {"x": null}]}`},
		"extra wins":    {"f", `{"lister_name": "other"}`, `{"url":"https://x/r","lister_name":"other","lister_instance_name":"f"}`},
		"huge integer":  {"f", `{"n": 1180591620717411303424}`, `{"url":"https://x/r","lister_name":"gitea","lister_instance_name":"f","n":1180591620717411303424}`},
		"odd key names": {"f", `{"a\"b": "<&>"}`, `{"url":"https://x/r","lister_name":"gitea","lister_instance_name":"f","a\"b":"<&>"}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := model.ListedOrigin{URL: "https://x/r", VisitType: "git", ExtraLoaderArguments: json.RawMessage(tc.extra)}
			got, err := loaderKwargs(o, model.Lister{Name: "gitea", InstanceName: tc.instance})
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Extra arguments that are no object cause an error that names the origin.
func TestLoaderKwargsRefusesOtherThanAnObject(t *testing.T) {
	for _, extra := range []string{`[]`, `3`, `"x"`, ``, `{"a"`, `{"a": `} {
		o := model.ListedOrigin{URL: "https://x/r", VisitType: "git", ExtraLoaderArguments: json.RawMessage(extra)}
		if _, err := loaderKwargs(o, model.Lister{}); err == nil || !strings.Contains(err.Error(), "https://x/r") {
			t.Errorf("%q: got %v", extra, err)
		}
	}
}

func FuzzKwargsMerge(f *testing.F) {
	for _, s := range []string{`{}`, `{"a": 1}`, `[]`, `{"a": {"b": [1e400]}}`, `{"a":1,"a":2}`, "{\"\\ud800\": 1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, object string) {
		var k Kwargs
		k.set("url", "https://x/r")
		if k.Merge(json.RawMessage(object)) == nil && !json.Valid(k.JSON()) {
			t.Errorf("%q merged to invalid JSON %s", object, k.JSON())
		}
	})
}
