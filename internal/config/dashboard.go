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
	v.section(fieldsOf(d, map[string]func(value){"proxy": d.Proxy.read}), nil)
	v.both(d.TLSCertificate == "", d.TLSKey == "", "tls_certificate and tls_key")
	v.both(d.Username == "", d.Password == "", "username and password")
	if d.RequireLogin && d.Token == "" && d.Username == "" && len(d.Proxy.Addresses) == 0 {
		v.problem("has require_login and no way to log in: give a token, username and password, or a proxy")
	}
}

func (p *DashboardProxy) read(v value) {
	v.section(fieldsOf(p, map[string]func(value){
		"addresses": func(v value) { p.Addresses = prefixes(v) },
	}), nil)
	if len(p.Addresses) == 0 || p.UserHeader == "" {
		v.problem("must have both addresses and user_header")
	}
	v.both(p.RoleHeader == "", len(p.Operators) == 0, "role_header and operators")
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
