package rpc

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/passwords"
)

// client is a client with its roles.
type client struct {
	name      string // "" for the single credential's token, and if no credentials are needed
	roles     roles
	listers   []listerPattern
	taskTypes []pattern
	daemons   []string // daemons of the role daemon; none: all
}

// listerPattern matches listers by their name and instance.
type listerPattern struct{ name, instance pattern }

// identity is a client that has presented one of its credentials.
type identity struct {
	*client
	credential string // its key in the file, such as token_sha256[0]; "" for the single credential
	// again returns the identity of the same credential in another access, or nil.
	again func(*access) *identity
}

// anyone may make all calls: the identity if no credentials are needed.
var anyone = &identity{client: &client{roles: allRoles}}

// nobody may make no call.
var nobody = &identity{client: &client{}}

// access holds the clients and their credentials. A change of the clients makes a new one.
type access struct {
	single       Credentials
	tokens       map[[sha256.Size]byte]*identity
	users        map[string]*passwordClient
	certificates map[string]*identity // by a name such as DNS:runner.example
	clients      []*client
	decoy        []passwords.Hash // of some client; checked for unknown users, so that they take as long

	flights singleflight.Group // of checks of passwords
	seed    [sha256.Size]byte
	mu      sync.Mutex
	right   map[[sha256.Size]byte]*identity // passwords that were right, by their seeded hash
}

// passwordClient is a client with passwords.
type passwordClient struct {
	*client
	hashes []passwords.Hash
	texts  []string // of the hashes
}

// newAccess makes the access of a configuration.
func newAccess(single Credentials, clients []config.Client) (*access, error) {
	a := &access{single: single, tokens: map[[sha256.Size]byte]*identity{}, users: map[string]*passwordClient{}, certificates: map[string]*identity{}, right: map[[sha256.Size]byte]*identity{}}
	_, _ = rand.Read(a.seed[:]) // it never fails
	for _, c := range clients {
		one := &client{name: c.Name, roles: rolesOf(c.Roles), daemons: c.Daemons}
		for _, text := range c.Listers {
			name, instance, _ := strings.Cut(text, "/")
			one.listers = append(one.listers, listerPattern{pattern(name), pattern(instance)})
		}
		for _, text := range c.TaskTypes {
			one.taskTypes = append(one.taskTypes, pattern(text))
		}
		a.clients = append(a.clients, one)
		for i, text := range c.TokenSHA256 {
			var sum [sha256.Size]byte
			if n, err := hex.Decode(sum[:], []byte(text)); err != nil || n != len(sum) {
				return nil, unusable(c.Name, "token_sha256")
			}
			a.tokens[sum] = &identity{one, key("token_sha256", i), func(other *access) *identity { return other.tokens[sum] }}
		}
		for i, name := range c.Certificate {
			a.certificates[name] = &identity{one, key("certificate", i), func(other *access) *identity { return other.certificates[name] }}
		}
		if len(c.PasswordHash) == 0 {
			continue
		}
		user := &passwordClient{client: one}
		for _, text := range c.PasswordHash {
			hash, err := passwords.Parse(string(text))
			if err != nil {
				return nil, unusable(c.Name, "password_hash")
			}
			user.hashes, user.texts = append(user.hashes, hash), append(user.texts, string(text))
		}
		a.users[cmp.Or(c.User, c.Name)] = user
		a.decoy = user.hashes
	}
	return a, nil
}

func key(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

// unusable is the error of an invalid credential, such as a redacted one of "config show".
func unusable(client, key string) error {
	return fmt.Errorf("rpc_serve.clients (%s).%s can't be used: give the file's own, not what config show prints", client, key)
}

// asks reports whether clients need credentials.
func (a *access) asks() bool { return a.single.IsSet() || len(a.clients) > 0 }

// challenges returns the accepted kinds of credentials.
func (a *access) challenges() (ways []string) {
	if a.single.Token != "" || len(a.tokens) > 0 {
		ways = append(ways, "Bearer")
	}
	if a.single.Username != "" || len(a.users) > 0 || len(a.tokens) > 0 {
		ways = append(ways, `Basic realm="swh-scheduler", charset="UTF-8"`)
	}
	return ways
}

// quick returns the identity of a request's credentials, if that takes no time: the single credential, a token (also
// as the password of its client's name), or a password that was right before. Comparisons take the same time for
// every wrong value.
func (a *access) quick(r *http.Request) *identity {
	if a.single.accept(r) {
		user, _, _ := r.BasicAuth()
		return &identity{client: &client{name: user, roles: allRoles}, again: func(other *access) *identity {
			if other.single == a.single {
				return anyone
			}
			return nil
		}}
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return a.tokens[sha256.Sum256([]byte(token))]
	}
	user, password, given := r.BasicAuth()
	if !given {
		return nil
	}
	if id := a.tokens[sha256.Sum256([]byte(password))]; id != nil && id.name == user {
		return id
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.right[a.sum(user, password)]
}

// maxRight bounds the stored passwords.
const maxRight = 4 * 1000

// sum is the seeded hash under which a password is stored.
func (a *access) sum(user, password string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(a.seed[:], "%d:%s%s", len(user), user, password))
}

// slow returns the identity for a user's password, by a check that takes long.
func (a *access) slow(user, password string) *identity {
	who := a.users[user]
	if who == nil || password == "" {
		for _, hash := range a.decoy {
			hash.Matches(password)
		}
		return nil
	}
	for i, hash := range who.hashes {
		if !hash.Matches(password) {
			continue
		}
		text := who.texts[i]
		id := &identity{who.client, key("password_hash", i), func(other *access) *identity {
			if now := other.users[user]; now != nil && slices.Contains(now.texts, text) {
				return &identity{client: now.client}
			}
			return nil
		}}
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.right) >= maxRight {
			clear(a.right)
		}
		a.right[a.sum(user, password)] = id
		return id
	}
	return nil
}

// hasPasswords reports whether a request may be that of a client with a password.
func (a *access) hasPasswords(r *http.Request) (user, password string, ok bool) {
	user, password, ok = r.BasicAuth()
	return user, password, ok && len(a.users) > 0
}

// ofCertificate returns the identity of a verified certificate: the first client, in the order of the certificate's
// names.
func (a *access) ofCertificate(leaf *x509.Certificate) *identity {
	for _, name := range certificateNames(leaf) {
		if id := a.certificates[name]; id != nil {
			return id
		}
	}
	return nil
}

// certificateNames returns the names of a certificate as the configuration has them.
func certificateNames(leaf *x509.Certificate) (names []string) {
	for _, uri := range leaf.URIs {
		names = append(names, "URI:"+uri.String())
	}
	for _, host := range leaf.DNSNames {
		names = append(names, "DNS:"+host)
	}
	for _, address := range leaf.EmailAddresses {
		names = append(names, "email:"+address)
	}
	if leaf.Subject.CommonName != "" {
		names = append(names, "CN:"+leaf.Subject.CommonName)
	}
	return names
}
