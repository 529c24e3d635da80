package config

import (
	"net/netip"
	"strings"
)

// Dashboard says who may act in the dashboard, where the rest may be read by whoever reaches its
// port.
type Dashboard struct {
	InRPCServe bool `yaml:"in_rpc_serve,omitempty"` // rpc-serve shows it, too
	// Hosts are names under which browsers ask for it, besides those of the machine and what it listens on.
	Hosts        []string `yaml:"hosts,omitempty"`
	RequireLogin bool     `yaml:"require_login,omitempty"` // to read, too
	// PEM files (see Beside); both or none.
	TLSCertificate string `yaml:"tls_certificate,omitempty"`
	TLSKey         string `yaml:"tls_key,omitempty"`
	// Who has the token, or the user name and the password, may act.
	Token    Secret `yaml:"token,omitempty"`
	Username string `yaml:"username,omitempty"`
	Password Secret `yaml:"password,omitempty"`
	// Reports is a directory (see Beside) of reports of the simulator, to be shown; "" is none.
	Reports string         `yaml:"reports,omitempty"`
	Proxy   DashboardProxy `yaml:"proxy,omitempty"`
}

// DashboardProxy is a proxy that knows its users, and says by headers who they are.
type DashboardProxy struct {
	Addresses  []netip.Prefix `yaml:"addresses,omitempty"`   // whose headers are believed
	UserHeader string         `yaml:"user_header,omitempty"` // with the user's name
	RoleHeader string         `yaml:"role_header,omitempty"` // with roles, separated by commas
	Operators  []string       `yaml:"operators,omitempty"`   // roles that may act
}

func (d *Dashboard) read(v value) {
	v.section(map[string]func(value){
		"in_rpc_serve":    func(v value) { d.InRPCServe = v.flag() },
		"hosts":           func(v value) { d.Hosts = v.texts() },
		"require_login":   func(v value) { d.RequireLogin = v.flag() },
		"tls_certificate": func(v value) { d.TLSCertificate = v.text() },
		"tls_key":         func(v value) { d.TLSKey = v.text() },
		"token":           func(v value) { d.Token = Secret(v.text()) },
		"username":        func(v value) { d.Username = v.text() },
		"password":        func(v value) { d.Password = Secret(v.text()) },
		"reports":         func(v value) { d.Reports = v.text() },
		"proxy": func(v value) {
			v.section(map[string]func(value){
				"addresses":   func(v value) { d.Proxy.Addresses = prefixes(v) },
				"user_header": func(v value) { d.Proxy.UserHeader = v.text() },
				"role_header": func(v value) { d.Proxy.RoleHeader = v.text() },
				"operators":   func(v value) { d.Proxy.Operators = v.texts() },
			}, nil)
			if len(d.Proxy.Addresses) == 0 || d.Proxy.UserHeader == "" {
				v.problem("must have both addresses and user_header")
			}
			if (d.Proxy.RoleHeader == "") != (len(d.Proxy.Operators) == 0) {
				v.problem("must have both role_header and operators, or none")
			}
		},
	}, nil)
	if (d.TLSCertificate == "") != (d.TLSKey == "") {
		v.problem("must have both tls_certificate and tls_key, or none")
	}
	if (d.Username == "") != (d.Password == "") {
		v.problem("must have both username and password, or none")
	}
	if d.RequireLogin && d.Token == "" && d.Username == "" && len(d.Proxy.Addresses) == 0 {
		v.problem("has require_login and no way to log in: give a token, username and password, or a proxy")
	}
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
