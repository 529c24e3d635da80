package celery

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Broker is the addresses of RabbitMQ, tried in turn. Its text form hides passwords.
type Broker struct {
	nodes []node
}

type node struct {
	secure             bool
	host               string
	port               int
	user, password     string
	vhost              string
	external           bool // SASL EXTERNAL: the client certificate is the login
	heartbeat          time.Duration
	connectTimeout     time.Duration
	caFile             string
	certFile, keyFile  string
	serverName         string
	insecureSkipVerify bool
}

// ParseBroker reads broker URLs as Celery does: amqp:// (or pyamqp://, or no
// scheme) and amqps://, several joined by ";". User and password default to
// guest, the host to localhost, the port to 5672 or 5671. The virtual host is the
// path without its first slash, "/" if that leaves nothing: "amqp://h",
// "amqp://h/", "amqp://h//" and "amqp://h/%2f" all mean "/". A URL without port or
// virtual host takes those of the one before it, as in kombu. A further address
// without scheme, such as "h2", takes all else from the first.
//
// Query parameters, named as in RabbitMQ's URI specification or kombu's:
// heartbeat (seconds), connection_timeout (milliseconds), connect_timeout
// (seconds), auth_mechanism or login_method (PLAIN, EXTERNAL), cacertfile or
// ssl_ca_certs, certfile or ssl_certfile, keyfile or ssl_keyfile,
// server_name_indication or ssl_server_hostname, verify (verify_peer,
// verify_none) or ssl_cert_reqs.
//
// The given parameters are defaults for all URLs; a URL's own parameters take precedence. If secure is set, all
// addresses have TLS, and their default port is 5671.
//
// Errors never contain a password.
func ParseBroker(urls string, secure bool, parameters url.Values) (Broker, error) {
	var b Broker
	parts := strings.Split(urls, ";")
	for i, u := range parts {
		u = strings.TrimSpace(u)
		if u == "" {
			continue // "amqp://a;" has one address
		}
		var before node
		n := node{secure: secure, user: "guest", password: "guest"}
		if len(b.nodes) > 0 {
			before = b.nodes[len(b.nodes)-1]
			if first := b.nodes[0]; !strings.Contains(u, "://") {
				before, n.secure, n.user, n.password = first, first.secure, first.user, first.password
			}
		}
		n, err := parseNode(u, n, before, parameters)
		if err != nil {
			return Broker{}, fmt.Errorf("broker URL %d of %d: %w", i+1, len(parts), err)
		}
		b.nodes = append(b.nodes, n)
	}
	if len(b.nodes) == 0 {
		return Broker{}, errors.New("broker URL is empty")
	}
	return b, nil
}

// parseNode adds to n, which has the defaults of TLS, user and password, what the URL says.
func parseNode(raw string, n, before node, parameters url.Values) (node, error) {
	n.heartbeat = 10 * time.Second
	if err := n.parseParameters(parameters); err != nil {
		return node{}, err
	}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "amqp", raw
	}
	switch strings.ToLower(scheme) {
	case "amqp", "pyamqp", "librabbitmq":
	case "amqps":
		n.secure = true
	default:
		// The text before "://" may be a password if the URL is garbled.
		return node{}, errors.New("the scheme must be amqp or amqps")
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if err := n.parseAuthority(authority, before); err != nil {
		return node{}, err
	}
	n.vhost = cmp.Or(unquote(path), before.vhost, "/")
	own, err := url.ParseQuery(query)
	if err != nil {
		return node{}, errors.New("the query is not key=value pairs joined by '&'")
	}
	if err := n.parseParameters(own); err != nil {
		return node{}, err
	}
	n.connectTimeout = cmp.Or(n.connectTimeout, 10*time.Second)
	return n, nil
}

// parseAuthority reads user:password@host:port, each part of which may be missing.
func (n *node) parseAuthority(authority string, before node) error {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		n.user, n.password = cmp.Or(unquote(user), "guest"), cmp.Or(unquote(password), "guest")
		authority = authority[at+1:]
	}

	host, port := authority, ""
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return errors.New("the host has no closing bracket")
		}
		host, port = authority[1:end], strings.TrimPrefix(authority[end+1:], ":")
	} else if h, p, ok := strings.Cut(authority, ":"); ok {
		host, port = h, p
	}
	n.host = cmp.Or(unquote(host), "localhost")
	n.port = cmp.Or(before.port, 5672)
	if n.secure {
		n.port = cmp.Or(before.port, 5671)
	}
	if port != "" {
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return errors.New("the port must be a number from 1 to 65535 (percent-encode ':', '/', '@', '?' and '#' in passwords)")
		}
		n.port = int(p)
	}
	return nil
}

func (n *node) parseParameters(values url.Values) (err error) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(key)
		switch key {
		case "heartbeat":
			n.heartbeat, err = parseDuration(value, time.Second)
		case "connection_timeout":
			n.connectTimeout, err = parseDuration(value, time.Millisecond)
		case "connect_timeout":
			n.connectTimeout, err = parseDuration(value, time.Second)
		case "auth_mechanism", "login_method":
			mechanism := strings.ToUpper(value)
			n.external = mechanism == "EXTERNAL"
			if !slices.Contains([]string{"EXTERNAL", "PLAIN", "AMQPLAIN"}, mechanism) {
				return fmt.Errorf("%s must be PLAIN or EXTERNAL", key)
			}
		case "cacertfile", "ssl_ca_certs", "ssl_cafile":
			n.caFile = value
		case "certfile", "ssl_certfile":
			n.certFile = value
		case "keyfile", "ssl_keyfile":
			n.keyFile = value
		case "server_name_indication", "ssl_server_hostname":
			n.serverName = value
		case "verify", "ssl_cert_reqs":
			switch strings.ToLower(strings.TrimPrefix(strings.ToLower(value), "cert_")) {
			case "verify_none", "none":
				n.insecureSkipVerify = true
			case "verify_peer", "required", "optional":
				n.insecureSkipVerify = false
			default:
				return fmt.Errorf("%s must be verify_peer or verify_none", key)
			}
		case "channel_max", "frame_max", "locale", "connection_attempts", "retry_delay",
			"socket_timeout", "stack_timeout", "blocked_connection_timeout", "tcp_options",
			"client_properties", "ssl_options", "backpressure_detection", "ssl_check_hostname":
			// pika or kombu use it; it has no effect here.
		default:
			return fmt.Errorf("unknown query parameter %q", key)
		}
		if err != nil {
			return fmt.Errorf("%s must be a number that isn't negative", key)
		}
	}
	if (n.certFile == "") != (n.keyFile == "") {
		return errors.New("certfile and keyfile must be given together")
	}
	return nil
}

func parseDuration(value string, unit time.Duration) (time.Duration, error) {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f >= 0 && f <= 1e9) {
		return 0, errors.New("out of range")
	}
	return time.Duration(f * float64(unit)), nil
}

var quoted = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// unquote decodes percent-encoding as Python's urllib does: invalid sequences stay unchanged, and invalid UTF-8
// becomes U+FFFD.
func unquote(s string) string {
	s = quoted.ReplaceAllStringFunc(s, func(code string) string {
		v, _ := strconv.ParseUint(code[1:], 16, 8)
		return string([]byte{byte(v)})
	})
	return string([]rune(s))
}

// Plain returns the hosts of the broker that are reached without TLS.
func (b Broker) Plain() (hosts []string) {
	for _, n := range b.nodes {
		if !n.secure {
			hosts = append(hosts, n.host)
		}
	}
	return hosts
}

// Each returns a broker of each address.
func (b Broker) Each() (each []Broker) {
	for _, n := range b.nodes {
		each = append(each, Broker{nodes: []node{n}})
	}
	return each
}

// String shows every address with its password replaced by "***".
func (b Broker) String() string {
	var names []string
	for _, n := range b.nodes {
		names = append(names, n.String())
	}
	return strings.Join(names, ";")
}

// GoString keeps passwords out of %#v as well.
func (b Broker) GoString() string { return "celery.Broker(" + b.String() + ")" }

func (n node) String() string {
	scheme := "amqp"
	if n.secure {
		scheme = "amqps"
	}
	return fmt.Sprintf("%s://%s:***@%s/%s", scheme, url.PathEscape(n.user), n.address(), url.PathEscape(n.vhost))
}

func (n node) address() string {
	return net.JoinHostPort(n.host, strconv.Itoa(n.port))
}

// tlsConfig returns the node's TLS options, with the check of its certificate.
func (n node) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         cmp.Or(n.serverName, n.host),
		InsecureSkipVerify: n.insecureSkipVerify, // asked for by name
	}
	if n.caFile != "" {
		pem, err := os.ReadFile(n.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA certificates of %s: %w", n, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate, for %s", n.caFile, n)
		}
	}
	if n.certFile != "" {
		cert, err := tls.LoadX509KeyPair(n.certFile, n.keyFile)
		if err != nil {
			return nil, fmt.Errorf("loading the client certificate for %s: %w", n, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
