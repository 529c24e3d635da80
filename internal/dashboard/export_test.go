package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"golang.org/x/crypto/bcrypt"

	"swh-scheduler/internal/config"
)

// Patient has pages wait for all that they show, however slow the machine.
func (d *Dashboard) Patient() {
	d.timeout = time.Minute
	d.now.figures.wait, d.now.ended.wait = time.Minute, time.Minute
	d.now.queues.wait, d.now.groups.wait, d.now.lanes.wait, d.now.hosters.wait = time.Minute, time.Minute, time.Minute, time.Minute
}

// AUser is a user with a password, a token ("" is none) and roles. Checking the password is fast.
func AUser(name, password, token string, roles ...config.DashboardRole) config.DashboardUser {
	u := config.DashboardUser{Name: name, Roles: roles}
	if password != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
		if err != nil {
			panic(err)
		}
		u.PasswordHash = config.Secret(hash)
	}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		u.TokenSHA256 = config.Secret(hex.EncodeToString(sum[:]))
	}
	return u
}

// Ann may do all. Her password is s3cret, her token t0ken.
func Ann() config.DashboardUser { return ann }

var ann = AUser("ann", "s3cret", "t0ken", config.RoleTasks, config.RoleGraphs, config.RoleTerminate)
