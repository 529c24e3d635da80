package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tokenSum = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	otherSum = "35224d0d3465d74e855f8d69a136e79c744ea35a675d3393360a327cbf6359a2"
	bcrypted = "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"
	argoned  = "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg"
)

func TestClients(t *testing.T) {
	t.Parallel()
	got, warnings, err := parse("F", []byte(`
rpc_serve:
  tls_certificate: c.pem
  tls_key: k.pem
  client_ca: ca.pem
  clients:
  - {name: gitlab, token_sha256: `+tokenSum+`, roles: lister, listers: gitlab/*}
  - name: web
    user: webapp
    password_hash: ['`+bcrypted+`', '`+argoned+`']
    token_sha256: ['`+otherSum+`']
    roles: [web, reader, web]
    task_types: [load-*, check-deposit]
  - {name: runner-1.example, certificate: "DNS:runner-1.example", roles: [daemon], daemons: [start-runner, start-runner]}
`))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := []Client{
		{Name: "gitlab", TokenSHA256: []Secret{tokenSum}, Roles: []string{RoleLister}, Listers: []string{"gitlab/*"}},
		{
			Name: "web", User: "webapp", PasswordHash: []Secret{bcrypted, argoned}, TokenSHA256: []Secret{otherSum},
			Roles: []string{RoleWeb, RoleReader}, TaskTypes: []string{"load-*", "check-deposit"},
		},
		{Name: "runner-1.example", Certificate: []string{"DNS:runner-1.example"}, Roles: []string{RoleDaemon}, Daemons: []string{"start-runner"}},
	}
	reveal := cmp.Comparer(func(a, b Secret) bool { return string(a) == string(b) })
	if diff := cmp.Diff(want, got.RPCServe.Clients, reveal); diff != "" {
		t.Error(diff)
	}
	if !got.RPCServe.RequiresCredentials() || strings.Contains(fmt.Sprintf("%v %+v %#v", got, got.RPCServe, got.RPCServe.Clients), tokenSum) {
		t.Error("it asks for nothing, or prints a hash")
	}
}

// An error about a client has the client's name and the key. No credential is printed, even one in the place of another
// value.
func TestWrongClients(t *testing.T) {
	t.Parallel()
	one := func(rest string) string { return "[{name: a, " + rest + "}]" }
	good := "token_sha256: " + tokenSum
	for clients, want := range map[string]string{
		"":                           "has clients without any client: leave clients out and write open: true",
		"[]":                         "has clients without any client",
		"s3cret":                     "rpc_serve.clients must be a list of clients",
		"[s3cret]":                   "rpc_serve.clients[0] must be a mapping with a name",
		"[{roles: reader}]":          "rpc_serve.clients[0] needs a name",
		"[{name: 'a b'}]":            "rpc_serve.clients[0].name must be a name of up to 63 letters",
		"[{name: 5}]":                "rpc_serve.clients[0].name must be a text, not a whole number",
		one("roles: [reader]"):       "rpc_serve.clients[0] (a) needs a credential: token_sha256, password_hash or certificate",
		one(good):                    "rpc_serve.clients[0] (a) needs roles: reader, lister, web, operator, daemon, hinter",
		one(good + ", roles: reder"): "rpc_serve.clients[0] (a).roles must be reader, lister, web, operator, daemon or hinter (did you mean reader?)",
		one("token_sha256: s3cret, roles: reader"):                                                           "rpc_serve.clients[0] (a).token_sha256 must be the SHA-256 of a token, in 64 hexadecimal digits",
		one("token_sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, roles: reader"): "is the SHA-256 of an empty text",
		one("token_sha256: [], roles: reader"):                                                               "(a).token_sha256 must be one, or a list of at most 2",
		one("token_sha256: [s3cret, 5], roles: reader"):                                                      "(a).token_sha256[1] must be a text",
		one("token_sha256: '${TOKEN}', roles: reader"):                                                       "(a).token_sha256 is ${TOKEN}, which nothing has replaced",
		one("token: s3cret, roles: reader"):                                                                  "(a) needs a credential",
		one("tokn_sha256: s3cret, roles: reader"):                                                            "(a).tokn_sha256 is not a known key (did you mean token_sha256?)",
		one("password_hash: s3cret, roles: reader"):                                                          "(a).password_hash must be a hash of bcrypt",
		one("password_hash: ['$2b$31$s3cret', x], roles: reader"):                                            "(a).password_hash[0] is not a complete bcrypt hash",
		one("user: u, " + good + ", roles: reader"):                                                          "(a) has a user, and no password_hash",
		one("user: 'u:s3cret', password_hash: '" + bcrypted + "', roles: reader"):                            "(a).user must be the name of a user, without a colon",
		one("certificate: s3cret, roles: reader"):                                                            "(a).certificate must be a name of a certificate: CN:name, DNS:host, URI:uri or email:address",
		one("certificate: 'DNS:a', roles: reader"):                                                           "rpc_serve has clients with a certificate, and no client_ca",
		one(good + ", roles: lister"):                                                                        "(a) has the role lister, and no listers",
		one(good + ", roles: reader, listers: ['*/*']"):                                                      "(a) has listers, and not the role lister",
		one(good + ", roles: reader, daemons: start-runner"):                                                 "(a) has daemons, and not the role daemon",
		one(good + ", roles: daemon, daemons: []"):                                                           "(a).daemons must be one or more of start-runner, ",
		one(good + ", roles: daemon, daemons: [listener]"):                                                   "(a).daemons[0] must be",
		one(good + ", roles: daemon, daemons: [rpc-serve]"):                                                  "(a).daemons[0] must be",
		one(good + ", roles: reader, task_types: ['*']"):                                                     "(a) has task_types, and not the role web",
		one(good + ", roles: lister, listers: [gitlab]"):                                                     "(a).listers[0] must be NAME/INSTANCE, such as gitlab/* or */*",
		one(good + ", roles: lister, listers: [gitlab/]"):                                                    "(a).listers[0] must be NAME/INSTANCE",
		one(good + ", roles: web, task_types: ['']"):                                                         "(a).task_types[0] must be a task type",
		"[{name: a, " + good + ", roles: reader}, {name: a, token_sha256: " + otherSum + ", roles: web}]":    "rpc_serve has a name or user twice: of client a and of client a",
		"[{name: a, " + good + ", roles: reader}, {name: b, " + strings.ToUpper(good[:0]) + "token_sha256: " + strings.ToUpper(tokenSum) + ", roles: web}]": "rpc_serve has a token_sha256 twice: of client b and of client a",
		"[{name: root, " + good + ", roles: reader}]":          "rpc_serve has a name or user twice: of client root and of username",
		"[" + strings.Repeat("{name: a},", maxClients+1) + "]": "rpc_serve.clients must be a list of at most 1000 clients",
	} {
		_, warnings, err := parse("F", []byte("rpc_serve: {username: root, password: s3cret, clients: "+clients+"}"))
		text := fmt.Sprint(err, warnings)
		if err == nil || !strings.Contains(text, want) || strings.Contains(text, "s3cret") || strings.Contains(text, tokenSum) {
			t.Errorf("%.200s:\n%.500s\nwant %s", clients, text, want)
		}
	}
	for section, want := range map[string]string{
		"{open: true, token: s3cret}": "rpc_serve has open: true, which lets everybody in, and credentials",
		"{open: 1}":                   "rpc_serve.open must be true or false",
		"{client_ca: x, clients: [{name: a, token_sha256: " + tokenSum + ", roles: reader}]}": "has client_ca, and no client with a certificate",
		"{client_ca: x, clients: [{name: a, certificate: 'CN:x', roles: reader}]}":            "has client_ca, which needs TLS",
	} {
		if _, _, err := parse("F", []byte("rpc_serve: "+section)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", section, err, want)
		}
	}
}

// If the door has a user of its own, all daemons may use it.
func TestDaemonsOfADoorWithAUser(t *testing.T) {
	t.Parallel()
	_, _, err := parse("F", []byte("rpc_serve:\n  door: {db: host=x}\n  clients: [{name: a, token_sha256: "+tokenSum+", roles: daemon, daemons: start-runner}]\n"))
	if err == nil || !strings.Contains(err.Error(), "has clients with daemons, and door.db, which is one user of the database for all daemons") {
		t.Error(err)
	}
}
