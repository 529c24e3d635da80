package service

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Hosts are the host names that requests to an HTTP server may have, besides addresses and localhost; *.example.org
// is every name below example.org. A request with another name may come from a foreign page whose name was made to
// resolve to this host (DNS rebinding).
type Hosts []string

// HostsOf returns the names of this machine, that of an address HOST:PORT to listen on, and further ones.
func HostsOf(address string, further []string) Hosts {
	host, _, _ := net.SplitHostPort(address)
	return slices.DeleteFunc(slices.Concat(machineNames(os.Hostname, os.ReadFile), []string{host}, further), func(name string) bool { return name == "" })
}

// machineNames returns the name of this machine, with and without its domain, and its names by the hosts file and
// the domains of its resolver.
func machineNames(hostname func() (string, error), read func(string) ([]byte, error)) []string {
	name, err := hostname()
	if err != nil || name == "" {
		return nil
	}
	short, _, _ := strings.Cut(name, ".")
	names := []string{name, short}
	hosts, _ := read("/etc/hosts") // a file that can't be read gives no name
	for line := range strings.Lines(string(hosts)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && slices.Contains(fields[1:], name) {
			names = append(names, fields[1:]...)
		}
	}
	resolver, _ := read("/etc/resolv.conf")
	for line := range strings.Lines(string(resolver)) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "search" || fields[0] == "domain") {
			for _, domain := range fields[1:] {
				names = append(names, short+"."+strings.TrimSuffix(domain, "."))
			}
		}
	}
	return names
}

// Has reports whether host, the name in a request with or without a port, is an address, localhost or one of the
// names.
func (h Hosts) Has(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || host != "" && slices.ContainsFunc(h, func(name string) bool {
		if domain, below := strings.CutPrefix(name, "*"); below {
			return len(host) > len(domain) && strings.EqualFold(host[len(host)-len(domain):], domain)
		}
		return strings.EqualFold(strings.TrimSuffix(name, "."), host)
	})
}

// Guard passes on only requests for one of the hosts, and requests of HTTP/1.0 without a host, which no browser
// sends. It answers others with status 421, and logs one of them a minute. key is the setting that adds a name.
func (h Hosts) Guard(key string, log *slog.Logger, next http.Handler) http.Handler {
	refused := new(LogLimit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "" || h.Has(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		if held, ok := refused.Log(""); ok {
			log.Warn("refused a request for a name that is not this host's", "host", r.Host, "path", r.URL.Path, "address", r.RemoteAddr, "add_it_to", key, "not_logged_before", held)
		}
		NoSniff(w)
		http.Error(w, fmt.Sprintf("This host has no name %q. Use its address, or add the name to the configuration (%s).", r.Host, key), http.StatusMisdirectedRequest)
	})
}

// NoSniff makes browsers treat an answer as nothing but its content type.
func NoSniff(w http.ResponseWriter) { w.Header().Set("X-Content-Type-Options", "nosniff") }
