package refusals

import (
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kind is how a hoster refused a visit: a label of a counter. "" is no refusal.
type Kind string

// The kinds of refusals.
const (
	TooMany     Kind = "too_many"    // HTTP 429, or a rate limit in words
	Unavailable Kind = "unavailable" // HTTP 502, 503, 504, 520 to 530
	Refused     Kind = "refused"     // no connection: refused, no route
	Unresolved  Kind = "unresolved"  // its name has no address
	TimedOut    Kind = "timed_out"   // it did not answer in time
	Broken      Kind = "broken"      // it closed the connection
	TLS         Kind = "tls"         // no TLS connection, or a bad certificate
)

// Kinds are all kinds, in the order of their definition.
var Kinds = []Kind{TooMany, Unavailable, Refused, Unresolved, TimedOut, Broken, TLS}

// ofHoster reports whether a single refusal of the kind says that the hoster refuses, and not only an origin.
func (k Kind) ofHoster() bool {
	return k == TooMany || k == Refused || k == Unresolved
}

// A Refusal is what the error of a visit says about its hoster.
type Refusal struct {
	Kind Kind
	// RetryAfter is how long the hoster asks to wait, negative for a date in the past. Said reports whether it asks.
	RetryAfter time.Duration
	Said       bool
}

// maxRead bounds the bytes of an error that Of reads, from its beginning.
const maxRead = 4000

// status matches the HTTP status in the text of dulwich ("unexpected http resp 429 for URL"), requests ("429 Client
// Error: Too Many Requests for url: URL"), urllib ("HTTP Error 429: Too Many Requests"), urllib3 ("too many 429 error
// responses"), git ("The requested URL returned error: 429"), aiohttp ("429, message='Too Many Requests'") and
// subversion ("Unexpected HTTP status 429 'Too Many Requests'").
var status = regexp.MustCompile(`(?i)\bhttp resp(?:onse)? (\d{3})\b|\b(\d{3}) (?:client|server) error\b|\bhttp error (\d{3})\b|` +
	`\btoo many (\d{3}) error responses|returned error: (\d{3})\b|(?:^|: )(\d{3}), message=|\bhttp status (?:code )?(\d{3})\b`)

// A rule gives texts their kind. Rules are tried in order: the cause of a broken connection may be TLS.
type rule struct {
	kind    Kind
	matches *regexp.Regexp
}

var rules = []rule{
	{Unresolved, regexp.MustCompile(`NameResolutionError|Failed to resolve|Name or service not known|Temporary failure in name resolution|No address associated with hostname|nodename nor servname|Could not resolve host|gaierror|Unknown host`)},
	{TLS, regexp.MustCompile(`SSLError|SSLCertVerificationError|CERTIFICATE_VERIFY_FAILED|\[SSL[:\]]|(?i:certificate verify failed|tls handshake)`)},
	{TooMany, regexp.MustCompile(`(?i)too many requests|rate.?limit(?:ed| exceeded|ing)|\bthrottled\b`)},
	{TimedOut, regexp.MustCompile(`ConnectTimeout|ReadTimeout|(?i:read timed out|connection timed out|connect timeout|operation timed out|timed out\b.*\(connect)|Errno 110\]|^(?:(?:\w+\.)*TimeoutError: )?(?:The (?:read|write) operation )?timed out$`)},
	{Refused, regexp.MustCompile(`(?i)connection refused|no route to host|network is unreachable|host is unreachable|NewConnectionError`)},
	{Broken, regexp.MustCompile(`ConnectionResetError|RemoteDisconnected|(?i:connection reset by peer|connection aborted|remote end closed connection|broken pipe|the remote server unexpectedly closed the connection|hung up unexpectedly)|Connection broken: (?:IncompleteRead|ConnectionResetError)`)},
}

// named matches a host that an error names: in the text of urllib3, or in a URL.
var named = regexp.MustCompile(`\bhost='([^']+)'|\b[a-z][a-z0-9+.-]*://(?:[^\s/?#@]*@)?(\[[^]\s/?#@]*\]|[^\s/?#:'")]+)|\bFailed to resolve '([^']+)'|Could not resolve host: ([^\s'")]+)`)

// ofOthers reports whether an error names hosts, and none of the origin's site. The archive's own storage, for
// example, isn't an origin's hoster.
func ofOthers(text, host string) bool {
	all := named.FindAllStringSubmatch(text, -1)
	for _, m := range all {
		if site(strings.ToLower(strings.Join(m[1:], ""))) == site(host) {
			return false
		}
	}
	return len(all) > 0
}

// site returns the last two labels of a host's name, or an address as it is.
func site(host string) string {
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return address.String() // urllib3 leaves the brackets out
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	return strings.Join(labels[max(0, len(labels)-2):], ".")
}

// Of returns the refusal that the error of a failed visit describes; its Kind is "" for none. host is that of the
// origin: an error that names only hosts of other sites is no refusal. received is when the event of the error
// arrived, from which a date of Retry-After counts.
func Of(text, host string, received time.Time) Refusal {
	if len(text) > maxRead {
		text = text[:maxRead]
	}
	if ofOthers(text, host) {
		return Refusal{}
	}
	var r Refusal
	if m := status.FindStringSubmatch(text); m != nil {
		r.Kind = ofStatus(strings.Join(m[1:], ""))
		if r.Kind == "" && !strings.HasPrefix(strings.Join(m[1:], ""), "4") {
			return r // a server error that concerns one origin, such as 500
		}
	}
	for _, rule := range rules {
		if r.Kind != "" {
			break
		}
		if rule.matches.MatchString(text) {
			r.Kind = rule.kind
		}
	}
	if r.Kind != "" {
		r.RetryAfter, r.Said = retryAfter(text, received)
	}
	return r
}

func ofStatus(code string) Kind {
	switch n, _ := strconv.Atoi(code); {
	case n == http.StatusTooManyRequests:
		return TooMany
	case n == http.StatusBadGateway, n == http.StatusServiceUnavailable, n == http.StatusGatewayTimeout, n >= 520 && n <= 530:
		return Unavailable
	}
	return ""
}

var (
	afterSeconds = regexp.MustCompile(`(?i)\bretry[-_ ]after['"]?\s*[:=]?\s*['"]?(\d{1,18})(?:\.\d+)?\b`)
	afterDate    = regexp.MustCompile(`(?i)\bretry[-_ ]after['"]?\s*[:=]?\s*['"]?([a-z]{3,9},? [\w :-]{9,30}GMT)`)
	againIn      = regexp.MustCompile(`(?i)\b(?:try|retry) again (?:in|after) (\d{1,18}) ?s`)
)

// retryAfter returns the wait that a text asks for, in seconds or until an HTTP date. It doesn't bound the wait.
func retryAfter(text string, received time.Time) (wait time.Duration, said bool) {
	for _, pattern := range []*regexp.Regexp{afterSeconds, againIn} {
		if m := pattern.FindStringSubmatch(text); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			return time.Duration(min(n, int64(maxWait/time.Second))) * time.Second, err == nil
		}
	}
	if m := afterDate.FindStringSubmatch(text); m != nil {
		date, err := http.ParseTime(m[1])
		return max(-maxWait, min(date.Sub(received), maxWait)), err == nil
	}
	return 0, false
}

// maxWait bounds waits before the configuration does, so that sums don't overflow.
const maxWait = 10 * 365 * 24 * time.Hour
