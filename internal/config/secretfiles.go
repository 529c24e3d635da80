package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// SecretFiles returns the paths of the files that hold secrets: the configuration file, if it has one, and the
// private keys that it names.
func (c *Config) SecretFiles() []string {
	var files []string
	if c.File != "" && c.hasSecrets() {
		files = append(files, c.File)
	}
	for _, key := range []string{c.RPCServe.TLSKey, c.Dashboard.TLSKey} {
		if key != "" {
			files = append(files, c.Resolve(key))
		}
	}
	if path := c.Scheduler.SessionKwargs.Key; path != "" {
		files = append(files, c.Resolve(path))
	}
	for _, name := range []string{"ssl.key.location", "ssl.keystore.location"} {
		if path := c.Journal.ConsumerSettings[name]; path != "" {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// hasSecrets reports whether the file, or an option, holds a secret.
func (c *Config) hasSecrets() bool {
	for _, address := range []Secret{c.Scheduler.DB, c.Scheduler.URL, c.Database.Direct, c.Database.Replica, c.RPCServe.Door.DB, c.Celery.TaskBroker, c.RabbitMQ.ManagementURL} {
		if hasPassword(string(address)) {
			return true
		}
	}
	for name, value := range c.Journal.ConsumerSettings {
		if value != "" && secretName.MatchString(name) && !strings.HasSuffix(name, ".location") {
			return true
		}
	}
	if slices.ContainsFunc(c.RPCServe.Clients, func(client Client) bool { return len(client.PasswordHash) > 0 }) { // a weak password can be guessed from its hash
		return true
	}
	return len(c.Hints.Sources) > 0 || len(c.Dashboard.Users) > 0 || c.Scheduler.SessionKwargs.Authorization+c.RPCServe.Token+c.RPCServe.Password+c.Metrics.PprofToken+c.Sentry.DSN != ""
}

var passwordKey = regexp.MustCompile(`(?i)\bpassword\s*=`)

// hasPassword reports whether one of the addresses, separated by semicolons, has a password. It returns true for an
// address that can't be read.
func hasPassword(addresses string) bool {
	for address := range strings.SplitSeq(addresses, ";") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || passwordKey.MatchString(address) {
			return true
		}
		if password, _ := u.User.Password(); password != "" {
			return true
		}
	}
	return false
}
