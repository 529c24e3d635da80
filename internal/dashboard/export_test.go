package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/crypto/argon2"

	"swh-scheduler/internal/config"
)

// Patient makes pages wait for all their parts, even on a slow machine.
func (d *Dashboard) Patient() {
	d.timeout = time.Minute
	d.now.figures.wait, d.now.ended.wait, d.now.past.wait, d.now.took.wait = time.Minute, time.Minute, time.Minute, time.Minute
	for _, b := range d.now.errors {
		b.wait = time.Minute
	}
	d.now.queues.wait, d.now.groups.wait, d.now.lanes.wait, d.now.hosters.wait = time.Minute, time.Minute, time.Minute, time.Minute
}

// AUser returns a user with a password, a token ("" is none) and roles. The password's hash has low costs.
func AUser(name, password, token string, roles ...config.DashboardRole) config.DashboardUser {
	u := config.DashboardUser{Name: name, Roles: roles}
	if password != "" {
		salt := []byte(rand.Text())
		sum := argon2.IDKey([]byte(password), salt, 1, 8<<10, 1, 32) // with the race detector, bcrypt takes seconds
		text := base64.RawStdEncoding.EncodeToString
		u.PasswordHash = config.Secret(fmt.Sprintf("$argon2id$v=19$m=8192,t=1,p=1$%s$%s", text(salt), text(sum)))
	}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		u.TokenSHA256 = config.Secret(hex.EncodeToString(sum[:]))
	}
	return u
}

// Ann may do everything. Her password is s3cret, her token t0ken.
func Ann() config.DashboardUser { return ann }

var ann = AUser("ann", "s3cret", "t0ken", config.RoleTasks, config.RoleGraphs, config.RoleTerminate)
