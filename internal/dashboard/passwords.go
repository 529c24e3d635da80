package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/passwords"
)

const (
	// maxChecks is the number of parallel password checks: each uses a processor for some 0.2 s.
	maxChecks = 2
	checkWait = 5 * time.Second
	// maxPassword is the longest password in bytes: bcrypt ignores the rest.
	maxPassword = 72
)

// passwordChecks checks passwords. A check takes the same time for an unknown user.
type passwordChecks struct {
	running chan struct{}
	decoy   passwords.Hash // checked for unknown users; no password matches it
}

func newPasswordChecks(users []config.DashboardUser) passwordChecks {
	p := passwordChecks{running: make(chan struct{}, maxChecks)}
	if at := slices.IndexFunc(users, func(u config.DashboardUser) bool { return u.PasswordHash != "" }); at >= 0 {
		p.decoy, _ = passwords.Parse(string(users[at].PasswordHash)) // config has parsed it successfully
	}
	return p
}

// isOf reports whether a password belongs to u, which is zero for an unknown user. The error is errBusy or that of ctx.
func (p passwordChecks) isOf(ctx context.Context, u config.DashboardUser, password string) (bool, error) {
	wait := time.NewTimer(checkWait)
	defer wait.Stop()
	select {
	case p.running <- struct{}{}:
		defer func() { <-p.running }()
	case <-wait.C:
		return false, errBusy
	case <-ctx.Done():
		return false, ctx.Err()
	}
	hash, err := passwords.Parse(string(u.PasswordHash))
	if err != nil || len(password) > maxPassword {
		p.decoy.Matches(password) // for as long
		return false, nil
	}
	return hash.Matches(password), nil
}

// isToken reports whether a bearer token belongs to u. It takes the same time for any wrong token.
func isToken(u config.DashboardUser, token string) bool {
	sum := sha256.Sum256([]byte(token))
	return u.TokenSHA256 != "" && subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(strings.ToLower(string(u.TokenSHA256)))) == 1
}
