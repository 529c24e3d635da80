package rpc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/internal/testenv"
)

// tokenOf is the token of the test client of a name.
func tokenOf(name string) string { return "the token of " + name }

// sumOf returns what the configuration has of a token.
func sumOf(token string) config.Secret {
	sum := sha256.Sum256([]byte(token))
	return config.Secret(hex.EncodeToString(sum[:]))
}

// withToken is a client with a token and roles. As a lister it is for gitlab/*, its tasks are load-*.
func withToken(name string, roles ...string) config.Client {
	c := config.Client{Name: name, TokenSHA256: []config.Secret{sumOf(tokenOf(name))}, Roles: roles}
	if slices.Contains(roles, config.RoleLister) {
		c.Listers = []string{"gitlab/*"}
	}
	if slices.Contains(roles, config.RoleWeb) {
		c.TaskTypes = []string{"load-*"}
	}
	return c
}

// oneOfEach returns a client for each role, of the role's name.
func oneOfEach() (clients []config.Client) {
	for _, role := range config.Roles {
		clients = append(clients, withToken(role, role))
	}
	return clients
}

func TestRolesAreTheConfigurations(t *testing.T) {
	t.Parallel()
	for name, role := range map[string]roles{
		config.RoleReader: reader, config.RoleLister: lister, config.RoleWeb: web, config.RoleOperator: operator, config.RoleDaemon: daemon, config.RoleHinter: hinter,
	} {
		if got := rolesOf([]string{name}); got != role || role.String() != name {
			t.Errorf("%s is %s, %s", name, got, role)
		}
	}
	if all := rolesOf(config.Roles); all != allRoles || all.String() != "reader, lister, web, operator, daemon or hinter" {
		t.Errorf("%s", all)
	}
}

// Every call has its roles: operators may make all, readers those without changes, and listers only those for
// their listers.
func TestEveryCallHasRoles(t *testing.T) {
	t.Parallel()
	for _, ep := range endpoints {
		_, name, _ := strings.Cut(ep.path, "/")
		changes := ep.writes && !(strings.HasPrefix(ep.path, "task_graph/") && slices.Contains([]string{"check", "list", "show", "running"}, name))
		switch {
		case ep.allowed&operator == 0:
			t.Errorf("%s is not for operators", ep.path)
		case changes && ep.allowed&reader != 0 || !changes && ep.allowed&readers != readers:
			t.Errorf("%s changes something: %t, and is for %s", ep.path, changes, ep.allowed)
		case ep.allowed&lister != 0 && ep.scoped != lister:
			t.Errorf("%s is for all listers", ep.path)
		case changes && ep.allowed&web != 0 && ep.scoped != web:
			t.Errorf("%s is for all that the web changes", ep.path)
		case ep.scoped&^ep.allowed != 0 || ep.scoped&(operator|daemon|reader) != 0:
			t.Errorf("%s bounds %s and is for %s", ep.path, ep.scoped, ep.allowed)
		case strings.Contains(ep.path, "grab") && ep.allowed != operator|daemon:
			t.Errorf("%s is for %s", ep.path, ep.allowed)
		case changes && ep.allowed&daemon != 0 && !ep.limited:
			t.Errorf("%s is for all daemons", ep.path)
		case slices.ContainsFunc(ep.daemons, func(name string) bool { return !slices.Contains(model.DoorDaemons, name) }):
			t.Errorf("%s is for %s", ep.path, ep.daemons)
		}
	}
}

// hostileBodies are bodies with right, wrong and hostile arguments, by their content types.
func hostileBodies() map[string][][]byte {
	deep := bytes.Repeat([]byte{0x91}, 100_000)
	return map[string][][]byte{
		mimeMsgpack: {
			nil, {0x80}, {0xc1}, {0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdb, 0xff, 0xff, 0xff, 0xff}, deep,
			append([]byte{0x81, 0xa8}, "task_ids\x91\x01"...),
			append([]byte{0x81, 0xac}, "lister_ids\xc0"...),
		},
		mimeJSON: {
			[]byte(`{}`), []byte(`{"task_ids": [1], "roles": ["operator"]}`), []byte(`[`), []byte(`{"lister": {"swhtype": "scheduler_model", "d": {}}}`),
			[]byte(`{"task_type": "load-git", "num_tasks": 1}`), []byte(`{"listed_origins": [], "tasks": [], "task_runs": [], "origin_visit_stats": []}`),
		},
		"text/plain": {[]byte("x")},
		"":           {nil},
	}
}

// On a running server, whatever the arguments, a client can make the calls of its roles and no others. A client
// without credentials can make none.
func TestCallsByRole(t *testing.T) {
	t.Parallel()
	url := serve(t, testenv.Database(t), func(o *Options) { o.Clients = oneOfEach() })
	try := func(method, path, who, contentType string, body []byte) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		if who != "" {
			request.Header.Set("Authorization", "Bearer "+tokenOf(who))
		}
		response, answer := do(t, request)
		return response.StatusCode, string(answer)
	}
	for contentType, bodies := range hostileBodies() {
		for _, body := range bodies {
			for _, ep := range endpoints {
				for _, who := range append([]string{"", "nobody"}, config.Roles...) {
					status, answer := try(http.MethodPost, "/"+ep.path, who, contentType, body)
					role := rolesOf([]string{who})
					switch {
					case role == 0:
						if status != http.StatusUnauthorized {
							t.Errorf("%q calls %s: %d", who, ep.path, status)
						}
					case role&ep.allowed == 0:
						if status != http.StatusForbidden || !strings.Contains(answer, "The client "+who+" may not call "+ep.path+": it needs ") {
							t.Errorf("%s calls %s: %d %q", who, ep.path, status, answer)
						}
					case role&ep.scoped == 0 && (status == http.StatusForbidden || status == http.StatusUnauthorized):
						t.Errorf("%s calls %s: %d %q", who, ep.path, status, answer)
					}
				}
			}
		}
	}
	for _, page := range []struct {
		path    string
		allowed roles
	}{{"/site-map", allRoles}, {"/metrics", reader | operator}, {door.Path, daemon}, {"/nonsense", allRoles}} {
		for _, who := range append([]string{"", "nobody"}, config.Roles...) {
			status, _ := try(http.MethodGet, page.path, who, "", nil)
			role := rolesOf([]string{who})
			if (status == http.StatusUnauthorized) != (role == 0) || (status == http.StatusForbidden) != (role != 0 && role&page.allowed == 0) {
				t.Errorf("%q gets %s: %d", who, page.path, status)
			}
		}
	}
	for _, health := range []string{"/", "/healthz", "/readyz"} {
		if status, _ := try(http.MethodGet, health, "", "", nil); status != http.StatusOK {
			t.Errorf("%s: %d", health, status)
		}
	}
}

// A lister's client is limited to its own listers, by their rows and not by the request, and to its task types. A
// refused call changes nothing.
func TestScopes(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	pool := openStore(t, dsn).Pool()
	testenv.Exec(t, pool, `insert into listers (id, name, instance_name, current_state, updated) values
		('00000000-0000-0000-0000-00000000000a', 'gitlab', 'a', '{}', '2020-01-01Z'), ('00000000-0000-0000-0000-00000000000b', 'github', 'b', '{}', '2020-01-01Z')`)
	var log testenv.Buffer
	url := serve(t, dsn, func(o *Options) {
		o.Clients = append(oneOfEach(), withToken("both", config.RoleLister, config.RoleReader))
		o.Log = log.Logger()
	})
	const a, b, gone = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b", "00000000-0000-0000-0000-00000000000c"
	origin := func(id, url string) string {
		return fmt.Sprintf(`{"swhtype": "scheduler_model", "d": {"__type__": "ListedOrigin", "lister_id": {"swhtype": "uuid", "d": %q}, "url": %q, "visit_type": "git"}}`, id, url)
	}
	row := func(id, name, instance string) string {
		return fmt.Sprintf(`{"swhtype": "scheduler_model", "d": {"__type__": "Lister", "id": {"swhtype": "uuid", "d": %q}, "name": %q, "instance_name": %q, "current_state": {}, "updated": {"swhtype": "datetime", "d": "2020-01-01T00:00:00+00:00"}}}`, id, name, instance)
	}
	task := func(taskType string) string {
		return fmt.Sprintf(`{"swhtype": "scheduler_model", "d": {"__type__": "Task", "type": %q, "arguments": {"swhtype": "scheduler_model", "d": {"__type__": "TaskArguments", "args": [], "kwargs": {}}}, "next_run": {"swhtype": "datetime", "d": "2020-01-01T00:00:00+00:00"}, "policy": "oneshot"}}`, taskType)
	}
	testenv.Exec(t, pool, `insert into task_type (type, description, backend_name, default_interval, min_interval, max_interval, backoff_factor) values
		('load-x', '', 'x', '1 day', '1 day', '1 day', 1), ('index-x', '', 'x', '1 day', '1 day', '1 day', 1) on conflict do nothing`)
	const notFor = "is not for the lister github/b: none of its listers matches"
	for _, c := range []struct {
		who, path, body string
		denied          string // "" if it is not
	}{
		{"lister", "lister/get", `{"name": "gitlab", "instance_name": "a"}`, ""},
		{"lister", "lister/get", `{"name": "gitlab", "instance_name": "not/there"}`, ""},
		{"lister", "lister/get", `{"name": "github", "instance_name": "b"}`, notFor},
		{"both", "lister/get", `{"name": "github", "instance_name": "b"}`, ""},
		{"lister", "lister/get_or_create", `{"name": "gitlab", "instance_name": "new"}`, ""},
		{"lister", "lister/get_or_create", `{"name": "github", "instance_name": "new"}`, "is not for the lister github/new"},
		{"lister", "lister/get_or_create", `{"name": "gitlab/x", "instance_name": "new"}`, "is not for the lister gitlab/x/new"},
		{"both", "lister/get_or_create", `{"name": "github", "instance_name": "new"}`, "is not for the lister github/new"},
		{"lister", "lister/update", `{"lister": ` + row(a, "gitlab", "a") + `}`, ""},
		{"lister", "lister/update", `{"lister": ` + row(b, "github", "b") + `}`, notFor},
		{"lister", "lister/update", `{"lister": ` + row(b, "gitlab", "b") + `}`, notFor},
		{"lister", "lister/update", `{"lister": ` + row(a, "github", "b") + `}`, notFor},
		{"lister", "lister/update", `{"lister": ` + row(gone, "gitlab", "c") + `}`, "lister " + gone + ", which is not there"},
		{"both", "lister/update", `{"lister": ` + row(b, "gitlab", "b") + `}`, notFor},
		{"lister", "lister/visit_types", `{"lister": ` + row(a, "gitlab", "a") + `}`, ""},
		{"lister", "lister/visit_types", `{"lister": ` + row(b, "gitlab", "b") + `}`, notFor},
		{"lister", "origins/record", `{"listed_origins": [` + origin(a, "https://a/1") + `]}`, ""},
		{"lister", "origins/record", `{"listed_origins": [` + origin(a, "https://a/2") + "," + origin(b, "https://b/1") + `]}`, notFor},
		{"lister", "origins/record", `{"listed_origins": [` + origin(gone, "https://a/3") + `]}`, gone},
		{"both", "origins/record", `{"listed_origins": [` + origin(b, "https://b/1") + `]}`, notFor},
		{"lister", "origins/record", `{"listed_origins": []}`, ""},
		{"lister", "origins/get", `{"lister_id": "` + a + `"}`, ""},
		{"lister", "origins/get", `{"lister_id": "` + b + `"}`, notFor},
		{"lister", "origins/get", `{}`, "reads origins of one lister: give lister_id"},
		{"lister", "origins/get", `{"lister_id": "` + a + `", "page_token": ["` + b + `", "x"]}`, ""},
		{"both", "origins/get", `{"lister_id": "` + b + `"}`, ""},
		{"web", "task/create", `{"tasks": [` + task("load-x") + `]}`, ""},
		{"web", "task/create", `{"tasks": [` + task("load-x") + "," + task("index-x") + `]}`, "is not for tasks of the type index-x"},
		{"operator", "task/create", `{"tasks": [` + task("index-x") + `]}`, ""},
		{"operator", "lister/update", `{"lister": ` + row(b, "github", "b2") + `}`, ""},
	} {
		response, answer := post(t, url+"/"+c.path, mimeJSON, []byte(c.body), "Authorization", "Bearer "+tokenOf(c.who))
		if c.denied == "" && response.StatusCode != http.StatusOK || c.denied != "" && (response.StatusCode != http.StatusForbidden || !bytes.Contains(answer, []byte(c.denied))) {
			t.Errorf("%s %s %s: %d %q", c.who, c.path, c.body, response.StatusCode, answer)
		}
	}
	for query, want := range map[string]int{
		"select count(*) from listed_origins": 1, "select count(*) from task": 2,
		"select count(*) from listers where name in ('gitlab', 'github')": 3, "select count(*) from listers where name = 'github' and instance_name <> 'b2'": 0,
	} {
		var got int
		if err := pool.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", query, got, err, want)
		}
	}
	for _, line := range []string{`msg="call denied" endpoint=origins/record caller.address=127.0.0.1`, "caller.client=lister ", "caller.client=web "} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no %s in the log:\n%s", line, &log)
		}
	}
}

// A client of a daemon can make the calls of that daemon in the Python scheduler, and no others that write. The
// listener's client can't read origins. A client of two daemons can make the calls of both. Other roles are
// unaffected.
func TestCallsByDaemon(t *testing.T) {
	t.Parallel()
	writes := map[string][]string{
		"start-runner":              {"task/grab_ready", "task/grab_ready_with_priority", "task_run/schedule_one", "task_run/schedule"},
		"start-listener":            {"task_run/start", "task_run/end"},
		"start-runner-first-visits": {"lister/update", "origins/grab_next"},
		"schedule-recurrent":        {"origins/grab_next", "visit_scheduler/set"},
		"journal-client":            {"origins/record", "visit_stats/upsert"},
		"update-metrics":            {"scheduler_metrics/update"},
	}
	client := func(name string, daemons []string, roles ...string) config.Client {
		c := withToken(name, roles...)
		c.Daemons = daemons
		return c
	}
	two := []string{"start-listener", "journal-client"}
	all := []config.Client{client("two", two, config.RoleDaemon), client("and-reader", two[:1], config.RoleDaemon, config.RoleReader), client("and-lister", two[:1], config.RoleDaemon, config.RoleLister)}
	for _, name := range model.DoorDaemons {
		all = append(all, client(name, []string{name}, config.RoleDaemon))
	}
	url := serve(t, testenv.Database(t), func(o *Options) { o.Clients = all })
	for _, c := range all {
		for _, ep := range endpoints {
			_, origins := map[string]bool{"origins/get": true, "lister/visit_types": true, "visit_stats/get": true, "visit_scheduler/get": true}[ep.path]
			may := slices.ContainsFunc(c.Daemons, func(name string) bool {
				return slices.Contains(writes[name], ep.path) || ep.allowed&readers == readers && !(origins && name == "start-listener")
			}) || slices.Contains(c.Roles, config.RoleReader) && ep.allowed&reader != 0 || slices.Contains(c.Roles, config.RoleLister) && ep.allowed&lister != 0
			response, answer := post(t, url+"/"+ep.path, mimeJSON, []byte(`{}`), "Authorization", "Bearer "+tokenOf(c.Name))
			says := "The client " + c.Name + " may not call " + ep.path + ": "
			if denied := response.StatusCode == http.StatusForbidden && strings.Contains(string(answer), says); denied == may {
				t.Errorf("%s calls %s: %d %s", c.Name, ep.path, response.StatusCode, answer)
			}
			if !may && ep.allowed&daemon != 0 && !strings.Contains(string(answer), "its role daemon is for "+strings.Join(c.Daemons, " and ")+", which doesn't make this call") {
				t.Errorf("%s calls %s: %s", c.Name, ep.path, answer)
			}
		}
	}
	// By its role daemon alone a listener's client isn't bound to its listers; with the role lister it is.
	body := []byte(`{"lister_id": "00000000-0000-0000-0000-00000000000b"}`)
	if response, answer := post(t, url+"/origins/get", mimeJSON, body, "Authorization", "Bearer "+tokenOf("and-lister")); response.StatusCode != http.StatusForbidden || !strings.Contains(string(answer), "which is not there") {
		t.Errorf("%d %s", response.StatusCode, answer)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, texts := range map[pattern]map[string]bool{
		"a": {"a": true, "ab": false, "": false, "A": false}, "*": {"": true, "a/b": true}, "load-*": {"load-": true, "load-git": true, "xload-git": false},
		"*.example": {"x.example": true, ".example": true, "x.example.org": false}, "a*b*c": {"abc": true, "axxbyyc": true, "acb": false, "ab": false, "abcc": true},
		"a*a": {"a": false, "aa": true, "aba": true}, "**": {"": true, "x": true}, "a*b*b": {"ab": false, "abb": true},
	} {
		for text, want := range texts {
			if pattern.matches(text) != want {
				t.Errorf("%s matches %q: %t", pattern, text, !want)
			}
		}
	}
}

// The table of calls and roles in the documentation equals the code. SWH_TEST_UPDATE=1 writes it.
func TestCallsInTheDocs(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintf(&table, "\n| call | `%s` |\n|---%s|\n", strings.Join(roleNames, "` | `"), strings.Repeat("|---", len(roleNames)))
	row := func(call string, allowed, scoped roles, daemons []string) {
		fmt.Fprintf(&table, "| %s |", call)
		for i := range roleNames {
			switch role := roles(1 << i); {
			case role == daemon && daemons != nil:
				table.WriteString(" `" + strings.Join(daemons, "`, `") + "` |")
			case scoped&role != 0:
				table.WriteString(" its own |")
			case allowed&role != 0:
				table.WriteString(" yes |")
			default:
				table.WriteString("  |")
			}
		}
		table.WriteString("\n")
	}
	for _, ep := range endpoints {
		of := ep.daemons
		switch {
		case ep.limited && len(of) == 0:
			of = []string{"none"}
		case len(of) == len(model.DoorDaemons)-1: // those that read origins
			of = []string{"all but start-listener"}
		}
		row("`"+ep.path+"`", ep.allowed, ep.scoped, of)
	}
	row("`GET /"+doorName+"`, the door", daemon, 0, nil)
	row("`GET /metrics`", reader|operator, 0, nil)
	row("`GET /site-map`", allRoles, 0, nil)
	table.WriteString("\n")
	testenv.Generated(t, "../../docs/reference/rpc.md", "calls", table.String())
}
