package config

import (
	"net/netip"
	"strings"
)

// Dashboard configures the dashboard: who may log in, read and act. Without RequireLogin, everybody who reaches the
// port may read. Credentials of rpc-serve are not valid there.
type Dashboard struct {
	InRPCServe bool `yaml:"in_rpc_serve,omitempty"` // rpc-serve serves the dashboard, too
	// Hosts are further host names in browsers' requests, besides the machine's names and the listening address.
	Hosts        []string `yaml:"hosts,omitempty"`
	RequireLogin bool     `yaml:"require_login,omitempty"` // also for reading
	// PEM files (see Resolve); both or none.
	TLSCertificate string          `yaml:"tls_certificate,omitempty"`
	TLSKey         string          `yaml:"tls_key,omitempty"`
	Users          []DashboardUser `yaml:"users,omitempty"`
	// Reports is a directory (see Resolve) of reports of the simulator; "" is none.
	Reports string         `yaml:"reports,omitempty"`
	Proxy   DashboardProxy `yaml:"proxy,omitempty"`
}

// DashboardProxy is a proxy that passes the addresses of its clients, and with UserHeader the names and roles of users
// that it authenticates.
type DashboardProxy struct {
	Addresses  []netip.Prefix `yaml:"addresses,omitempty"`   // whose headers are trusted
	UserHeader string         `yaml:"user_header,omitempty"` // with the user's name; "": it authenticates nobody
	RoleHeader string         `yaml:"role_header,omitempty"` // with the proxy's roles of the user, separated by commas
	// Roles maps each of the proxy's roles to roles of the dashboard. All users of the proxy may read.
	Roles map[string][]DashboardRole `yaml:"roles,omitempty"`
}

func (d *Dashboard) read(v value) {
	fields := map[string]func(value){"proxy": d.Proxy.read, "users": func(v value) { d.Users = dashboardUsers(v) }}
	for _, key := range []string{"token", "username", "password"} {
		fields[key] = func(v value) {
			v.problem("lets nobody log in: name users in dashboard.users, such as [{name: ann, password_hash: …, roles: [tasks]}] (swh-scheduler config hash-password makes a password_hash)")
		}
	}
	v.section(fieldsOf(d, fields), nil)
	v.both(d.TLSCertificate == "", d.TLSKey == "", "tls_certificate and tls_key")
	if d.RequireLogin && !d.HasLogins() {
		v.problem("has require_login and no way to log in: name users, or a proxy")
	}
}

func (p *DashboardProxy) read(v value) {
	v.section(fieldsOf(p, map[string]func(value){
		"addresses": func(v value) { p.Addresses = prefixes(v) },
		"roles": func(v value) {
			p.Roles = mapping(v, "a mapping from the proxy's roles to lists of roles", dashboardRoles)
		},
		"operators": func(v value) {
			v.problem("lets nobody act: map the proxy's roles to roles here in dashboard.proxy.roles, such as {scheduler-admins: [tasks, terminate, graphs]}")
		},
	}), nil)
	if len(p.Addresses) == 0 {
		v.problem("must have addresses")
	}
	if p.UserHeader == "" && p.RoleHeader != "" {
		v.problem("must have user_header beside role_header")
	}
	v.both(p.RoleHeader == "", len(p.Roles) == 0 && v.lines["dashboard.proxy.operators"] == 0, "role_header and roles")
}

// prefixes reads addresses and networks.
func prefixes(v value) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range v.texts() {
		prefix, err := netip.ParsePrefix(text)
		if !strings.Contains(text, "/") {
			var address netip.Addr
			address, err = netip.ParseAddr(text)
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if err != nil {
			v.fail("a list of addresses or networks, such as [127.0.0.1, 10.0.0.0/8]", "a list", "a text")
		}
		all = append(all, prefix.Masked())
	}
	return all
}
