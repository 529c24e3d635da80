package celery

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Broker is where RabbitMQ listens: one or more addresses, tried in turn. Its
// text form hides passwords.
type Broker struct {
	nodes []node
}

// node is one parsed broker URL.
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

const (
	defaultPort           = 5672
	defaultSecurePort     = 5671
	defaultHeartbeat      = 10 * time.Second
	defaultConnectTimeout = 10 * time.Second
)

// ParseBroker reads broker URLs as Celery does: amqp:// (or pyamqp://, or no
// scheme at all) and amqps://, several joined by ";". User and password
// default to guest, the host to localhost, the port to 5672 or 5671. The
// virtual host is the path without its first slash, "/" if that leaves
// nothing; so "amqp://h", "amqp://h/", "amqp://h//" and "amqp://h/%2f" all
// mean "/". A later URL that has no port or virtual host takes those of the
// one before it, as in kombu.
//
// Query parameters, named as in RabbitMQ's URI specification or kombu's:
// heartbeat (seconds), connection_timeout (milliseconds), connect_timeout
// (seconds), auth_mechanism or login_method (PLAIN, EXTERNAL), cacertfile or
// ssl_ca_certs, certfile or ssl_certfile, keyfile or ssl_keyfile,
// server_name_indication or ssl_server_hostname, verify (verify_peer,
// verify_none) or ssl_cert_reqs.
//
// Errors never contain a password.
func ParseBroker(urls string) (Broker, error) {
	var b Broker
	parts := strings.Split(urls, ";")
	for i, u := range parts {
		u = strings.TrimSpace(u)
		if u == "" {
			continue // "amqp://a;" has one address
		}
		var before *node
		if len(b.nodes) > 0 {
			before = &b.nodes[len(b.nodes)-1]
		}
		n, err := parseNode(u, before)
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

func parseNode(raw string, before *node) (node, error) {
	n := node{heartbeat: defaultHeartbeat}
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "amqp", raw
	}
	switch strings.ToLower(scheme) {
	case "amqp", "pyamqp", "librabbitmq":
	case "amqps":
		n.secure = true
	default:
		// What stands before "://" may be a password if the URL is garbled.
		return node{}, errors.New("the scheme must be amqp or amqps")
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")

	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		n.user, n.password = unquote(user), unquote(password)
		authority = authority[at+1:]
	}
	if n.user == "" {
		n.user = "guest"
	}
	if n.password == "" {
		n.password = "guest"
	}

	host, port := authority, ""
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return node{}, errors.New("the host has no closing bracket")
		}
		host, port = authority[1:end], strings.TrimPrefix(authority[end+1:], ":")
	} else if h, p, ok := strings.Cut(authority, ":"); ok {
		host, port = h, p
	}
	n.host = unquote(host)
	if n.host == "" {
		n.host = "localhost"
	}
	switch {
	case port != "":
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return node{}, errors.New("the port must be a number from 1 to 65535 (percent-encode ':', '/' and '@' in passwords)")
		}
		n.port = int(p)
	case before != nil:
		n.port = before.port
	case n.secure:
		n.port = defaultSecurePort
	default:
		n.port = defaultPort
	}
	n.vhost = unquote(path)
	if n.vhost == "" {
		n.vhost = "/"
		if before != nil {
			n.vhost = before.vhost
		}
	}
	if err := n.parseQuery(query); err != nil {
		return node{}, err
	}
	n.connectTimeout = cmp.Or(n.connectTimeout, defaultConnectTimeout)
	return n, nil
}

func (n *node) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the query is not key=value pairs joined by '&'")
	}
	for key := range values {
		value := values.Get(key)
		switch key {
		case "heartbeat":
			n.heartbeat, err = parseDuration(value, time.Second)
		case "connection_timeout":
			n.connectTimeout, err = parseDuration(value, time.Millisecond)
		case "connect_timeout":
			n.connectTimeout, err = parseDuration(value, time.Second)
		case "auth_mechanism", "login_method":
			switch strings.ToUpper(value) {
			case "EXTERNAL":
				n.external = true
			case "PLAIN", "AMQPLAIN":
			default:
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
			default:
				return fmt.Errorf("%s must be verify_peer or verify_none", key)
			}
		case "channel_max", "frame_max", "locale", "connection_attempts", "retry_delay",
			"socket_timeout", "stack_timeout", "blocked_connection_timeout", "tcp_options",
			"client_properties", "ssl_options", "backpressure_detection", "ssl_check_hostname":
			// Known to pika or kombu, which read the same setting; nothing to do here.
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

// unquote decodes percent-encoding as Python's urllib does: what isn't a
// valid sequence stays as it is.
func unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// String shows every address with its password replaced by "***".
func (b Broker) String() string {
	names := make([]string, len(b.nodes))
	for i, n := range b.nodes {
		names[i] = n.String()
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

// tlsConfig is what the node's certificates are checked with. The base, if
// any, is the caller's; what the URL says comes on top of it.
func (n node) tlsConfig(base *tls.Config) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		c = base.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = n.host
	}
	if n.serverName != "" {
		c.ServerName = n.serverName
	}
	if n.insecureSkipVerify {
		c.InsecureSkipVerify = true
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

// node returns an address by number, the zero node if there is none.
func (b Broker) node(i int) node {
	if i >= len(b.nodes) {
		return node{}
	}
	return b.nodes[i]
}
