package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/passwords"
)

// Client is a client of the RPC server. Any of its credentials allows the calls of its roles. It may have two
// credentials of each kind, while one replaces the other.
type Client struct {
	Name         string   `yaml:"name"`
	TokenSHA256  []Secret `yaml:"token_sha256,omitempty"` // SHA-256 of bearer tokens, in 64 hexadecimal digits
	User         string   `yaml:"user,omitempty"`         // of HTTP basic authentication; Name if not given
	PasswordHash []Secret `yaml:"password_hash,omitempty"`
	Certificate  []string `yaml:"certificate,omitempty"` // names of client certificates, such as DNS:runner.example
	Roles        []string `yaml:"roles,omitempty"`
	Listers      []string `yaml:"listers,omitempty"`    // NAME/INSTANCE, where * matches any text, for the role lister
	TaskTypes    []string `yaml:"task_types,omitempty"` // where * matches any text; the role web may create tasks of these types
	Daemons      []string `yaml:"daemons,omitempty"`    // commands of daemons, for the role daemon; all if empty
}

// Roles of clients.
const (
	RoleReader   = "reader"
	RoleLister   = "lister"
	RoleWeb      = "web"
	RoleOperator = "operator"
	RoleDaemon   = "daemon"
	RoleHinter   = "hinter"
)

// Roles are all roles of clients.
var Roles = []string{RoleReader, RoleLister, RoleWeb, RoleOperator, RoleDaemon, RoleHinter}

// CertificateNames are the kinds of names in Client.Certificate, before the colon.
var CertificateNames = []string{"CN", "DNS", "URI", "email"}

const (
	maxClients     = 1000
	maxCredentials = 2   // of one kind
	maxPatterns    = 100 // of one client
)

// clientName matches names that are safe in logs, labels of metrics and URLs.
var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// RequiresCredentials reports whether clients need credentials.
func (r *RPCServe) RequiresCredentials() bool {
	return r.Token != "" || r.Username != "" || len(r.Clients) > 0
}

// checkAsked reports contradictory settings of credentials.
func (r *RPCServe) checkAsked(v value) {
	if _, given := v.lines[v.key+".clients"]; given && len(r.Clients) == 0 && len(v.errors) == 0 {
		v.problem("has clients without any client: leave clients out and write open: true if everybody may call")
	}
	r.differ(v)
	single := slices.ContainsFunc(r.Clients, func(c Client) bool { return len(c.Daemons) > 0 })
	certificates := slices.ContainsFunc(r.Clients, func(c Client) bool { return len(c.Certificate) > 0 })
	switch {
	case r.Open && r.RequiresCredentials():
		v.problem("has open: true, which lets everybody in, and credentials: leave one out")
	case single && r.Door.DB != "":
		v.problem("has clients with daemons, and door.db, which is one user of the database for all daemons: leave one out")
	case certificates && r.ClientCA == "":
		v.problem("has clients with a certificate, and no client_ca, the file of the authority that signs those")
	case r.ClientCA != "" && !certificates:
		v.problem("has client_ca, and no client with a certificate")
	case r.ClientCA != "" && r.TLSCertificate == "":
		v.problem("has client_ca, which needs TLS: give tls_certificate and tls_key")
	}
}

// clientsOf reads the clients.
func clientsOf(v value) []Client {
	items := v.items("a list of clients, each with a name, credentials and roles")
	if len(items) > maxClients {
		v.problem(fmt.Sprintf("must be a list of at most %d clients", maxClients))
		return nil
	}
	var clients []Client
	for _, item := range items {
		clients = append(clients, clientOf(item))
	}
	return clients
}

// differ reports a credential or a name that two clients have.
func (r *RPCServe) differ(v value) {
	type credential struct{ what, text string }
	whose := map[credential]string{{"name or user", r.Username}: "username"}
	for _, c := range r.Clients {
		all := []credential{{"name or user", c.Name}}
		if c.User != "" && c.User != c.Name {
			all = append(all, credential{"name or user", c.User})
		}
		for _, token := range c.TokenSHA256 {
			all = append(all, credential{"token_sha256", strings.ToLower(string(token))})
		}
		for _, name := range c.Certificate {
			all = append(all, credential{"certificate", name})
		}
		for _, one := range all {
			other, twice := whose[one]
			if twice && one.text != "" && one.text != redacted {
				v.problem(fmt.Sprintf("has a %s twice: of client %s and of %s", one.what, c.Name, other))
			}
			whose[one] = "client " + c.Name
		}
	}
}

func clientOf(v value) (c Client) {
	if v.node.Kind != yaml.MappingNode {
		v.fail("a mapping with a name, credentials and roles")
		return c
	}
	// The name is read first, because the other errors contain it.
	for _, e := range v.entries("a mapping") {
		if e.name == "name" && !e.isNull() {
			if c.Name = e.text(); !clientName.MatchString(c.Name) {
				e.problem("must be a name of up to 63 letters, digits, dots, dashes and underscores")
				c.Name = ""
			}
		}
	}
	if c.Name == "" {
		v.problem("needs a name")
		return c
	}
	v.key = fmt.Sprintf("%s (%s)", v.key, c.Name)
	before := len(v.errors)
	v.section(fieldsOf(&c, map[string]func(value){
		"name":          func(value) {},
		"token_sha256":  func(v value) { c.TokenSHA256 = credentials(v, checkTokenSum) },
		"password_hash": func(v value) { c.PasswordHash = credentials(v, checkHash) },
		"certificate": func(v value) {
			for _, name := range credentials(v, checkCertificateName) {
				c.Certificate = append(c.Certificate, string(name))
			}
		},
		"user":       func(v value) { c.User = userOf(v) },
		"roles":      func(v value) { c.Roles = oneOrMoreOf(v, Roles) },
		"listers":    func(v value) { c.Listers = patterns(v, "NAME/INSTANCE, such as gitlab/* or */*", isListerPattern) },
		"task_types": func(v value) { c.TaskTypes = patterns(v, "a task type, such as load-git or load-*", isPattern) },
		"daemons":    func(v value) { c.Daemons = oneOrMoreOf(v, model.DoorDaemons) },
	}), nil)
	if len(v.errors) == before {
		c.check(v)
	}
	return c
}

func (c *Client) check(v value) {
	has := func(role string) bool { return slices.Contains(c.Roles, role) }
	switch {
	case len(c.TokenSHA256)+len(c.PasswordHash)+len(c.Certificate) == 0:
		v.problem("needs a credential: token_sha256, password_hash or certificate")
	case c.User != "" && len(c.PasswordHash) == 0:
		v.problem("has a user, and no password_hash")
	case len(c.Roles) == 0:
		v.problem("needs roles: " + strings.Join(Roles, ", "))
	case has(RoleLister) && len(c.Listers) == 0:
		v.problem(`has the role lister, and no listers, such as ["gitlab/*"]`)
	case !has(RoleLister) && len(c.Listers) > 0:
		v.problem("has listers, and not the role lister")
	case !has(RoleDaemon) && len(c.Daemons) > 0:
		v.problem("has daemons, and not the role daemon")
	case !has(RoleWeb) && len(c.TaskTypes) > 0:
		v.problem("has task_types, and not the role web")
	}
}

// items returns the values of a list.
func (v value) items(expected string) []value {
	if v.node.Kind != yaml.SequenceNode {
		v.fail(expected)
		return nil
	}
	items := make([]value, len(v.node.Content))
	for i := range items {
		items[i] = v.item(i)
	}
	return items
}

// oneOrMore returns a single value, or the values of a list.
func (v value) oneOrMore() []value {
	if v.node.Kind == yaml.SequenceNode {
		return v.items("")
	}
	return []value{v}
}

// credentials reads one credential, or a list of two. Errors don't quote them.
func credentials(v value, check func(string) error) []Secret {
	var all []Secret
	for _, one := range v.oneOrMore() {
		before := len(one.errors)
		text := one.text()
		if len(one.errors) > before {
			continue
		}
		if err := check(text); err != nil && text != redacted { // [redacted] is the output of config show
			one.problem(err.Error())
		}
		all = append(all, Secret(text))
	}
	if len(all) > maxCredentials || len(all) == 0 && v.node.Kind == yaml.SequenceNode {
		v.problem(fmt.Sprintf("must be one, or a list of at most %d", maxCredentials))
	}
	return all
}

func checkTokenSum(text string) error {
	if sum, err := hex.DecodeString(text); err != nil || len(sum) != 32 {
		return errors.New("must be the SHA-256 of a token, in 64 hexadecimal digits")
	} else if [32]byte(sum) == sha256.Sum256(nil) {
		return errors.New("is the SHA-256 of an empty text, not of a token")
	}
	return nil
}

func checkHash(text string) error {
	_, err := passwords.Parse(text)
	return err
}

func checkCertificateName(text string) error {
	kind, name, ok := strings.Cut(text, ":")
	if !ok || name == "" || !slices.Contains(CertificateNames, kind) {
		return errors.New("must be a name of a certificate: CN:name, DNS:host, URI:uri or email:address")
	}
	return nil
}

func userOf(v value) string {
	text := v.text()
	if text == "" || strings.ContainsAny(text, ":\x00\r\n") || len(text) > 255 {
		v.problem("must be the name of a user, without a colon")
	}
	return text
}

// oneOrMoreOf reads one of names, or a list of them, each once.
func oneOrMoreOf(v value, names []string) []string {
	all := v.oneOrMore()
	if len(all) == 0 {
		v.problem("must be one or more of " + strings.Join(names, ", "))
	}
	var found []string
	for _, one := range all {
		if name := one.oneOf(names...); name != "" && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}

func patterns(v value, expected string, right func(string) bool) []string {
	var all []string
	for _, one := range v.oneOrMore() {
		text := one.text()
		if !right(text) {
			one.problem("must be " + expected)
		}
		all = append(all, text)
	}
	if len(all) > maxPatterns {
		v.problem(fmt.Sprintf("must be at most %d", maxPatterns))
	}
	return all
}

func isPattern(text string) bool { return text != "" && len(text) <= 255 }

func isListerPattern(text string) bool {
	name, instance, ok := strings.Cut(text, "/")
	return ok && isPattern(name) && isPattern(instance)
}
