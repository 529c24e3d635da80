package rpc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// origins/hint moves known origins, counts each hint by its result, and refuses a list that is too long.
func TestHintOrigins(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	url := serve(t, dsn)
	pool := openStore(t, dsn).Pool()
	testenv.Exec(t, pool, `insert into listers (id, name, instance_name, current_state, updated) values ('00000000-0000-4000-8000-000000000001', 'gitea', 'a', '{}', now())`)
	testenv.Exec(t, pool, `insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen, last_update)
		select '00000000-0000-4000-8000-000000000001', 'https://a.example/' || n, 'git', '{}', n <> 2, now(), '2024-01-01Z' from generate_series(1, 3) n`)
	for _, c := range []struct {
		body   string
		status int
		want   model.HintAnswer
		says   string
	}{
		{`{"hints": []}`, http.StatusOK, model.HintAnswer{}, ""},
		{`{"hints": [{"url": "https://a.example/1", "source": "s", "changed_at": "2024-02-01T00:00:00Z"}, {"url": "https://a.example/2", "source": "s"},
			{"url": "https://a.example/1.git/", "source": "s", "visit_type": "git", "changed_at": "2023-02-01T00:00:00Z"}, {"url": "https://a.example/9", "source": "s"}]}`,
			http.StatusOK, model.HintAnswer{Moved: 1, Disabled: 1, Newer: 1, Unknown: 1}, ""},
		{`{"hints": [{"url": "a\u0000b", "source": "s"}, {"url": "https://a.example/3", "source": "s", "visit_type": null, "changed_at": "9999-01-01T00:00:00Z"}]}`, http.StatusOK,
			model.HintAnswer{Moved: 1, Refused: 1, Refusals: []model.HintRefusal{{URL: "a\x00b", Why: "the URL has a blank or a control character"}}}, ""},
		{`{"hints": [{"url": "https://a.example/1"}]}`, http.StatusBadRequest, model.HintAnswer{}, "source"},
		{`{}`, http.StatusBadRequest, model.HintAnswer{}, "hints"},
		{`{"hints": [{"url": 1, "source": "s"}]}`, http.StatusBadRequest, model.HintAnswer{}, "url"},
		{`{"hints": [{"url": "https://a.example/1", "source": "s", "changed_at": "yesterday"}]}`, http.StatusBadRequest, model.HintAnswer{}, "changed_at"},
		{`{"hints": [` + strings.Repeat(`{"url": "https://a.example/1", "source": "s"},`, 1000) + `{"url": "https://a.example/1", "source": "s"}]}`, http.StatusBadRequest, model.HintAnswer{}, "at most 1000 hints"},
	} {
		response, text := post(t, url+"/origins/hint", mimeJSON, []byte(c.body))
		if c.says != "" {
			if response.StatusCode != c.status || !strings.Contains(string(text), c.says) {
				t.Errorf("%.100s: %s: %q, want %d: %q", c.body, response.Status, text, c.status, c.says)
			}
			continue
		}
		var got model.HintAnswer
		if err := json.Unmarshal(text, &got); err != nil || response.StatusCode != c.status || !cmp.Equal(got, c.want) {
			t.Errorf("%.100s: %s: %s, want %+v", c.body, response.Status, text, c.want)
		}
	}
	if n := testenv.Value[int](t, pool, "select count(*) from listed_origins where last_update = '2024-02-01Z' or last_update between now() - interval '1 minute' and now()"); n != 2 {
		t.Errorf("%d origins are moved, want 2", n)
	}
	// A client sends as many as it is given.
	client, err := NewClient(url)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var many []model.Hint
	for i := range 2500 {
		many = append(many, model.Hint{URL: fmt.Sprint("https://a.example/x", i), Source: "client"})
	}
	if answer, err := client.HintOrigins(t.Context(), many); err != nil || answer.Unknown != 2500 {
		t.Errorf("%+v (%v)", answer, err)
	}
}
