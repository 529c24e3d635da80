package refusals

import (
	"strings"
	"testing"
	"time"
)

// recorded are the errors of the archive's loaders and listers (swh.loader.git 3.4.0 with dulwich 1.2.21,
// swh.loader.core 5.24.2 and swh.lister 7.4.0 with requests 2.34.2 and urllib3 2.8.0) against local servers, with
// other ports: testdata/record.py.
var recorded = []struct {
	name, host, text string
	want             Kind
}{
	{"git, 429", "127.0.0.1", `unexpected http resp 429 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, TooMany},
	{"git, 429 with Retry-After", "127.0.0.1", `unexpected http resp 429 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, TooMany},
	{"git, 503", "127.0.0.1", `unexpected http resp 503 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, Unavailable},
	{"git, 502", "127.0.0.1", `unexpected http resp 502 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, Unavailable},
	{"git, 504", "127.0.0.1", `unexpected http resp 504 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, Unavailable},
	{"git, 500", "127.0.0.1", `unexpected http resp 500 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, ""},
	{"git, 529", "127.0.0.1", `unexpected http resp 529 for http://127.0.0.1:8080/owner/repo.git/info/refs?service=git-upload-pack`, Unavailable},
	{"git, refused connection", "127.0.0.1", `HTTPConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by NewConnectionError("HTTPConnection(host='127.0.0.1', port=8080): Failed to establish a new connection: [Errno 111] Connection refused"))`, Refused},
	{"git, reset connection", "127.0.0.1", `HTTPConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by ProtocolError('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer')))`, Broken},
	{"git, closed connection", "127.0.0.1", `HTTPConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by ProtocolError('Connection aborted.', RemoteDisconnected('Remote end closed connection without response')))`, Broken},
	{"content, no answer", "127.0.0.1", `HTTPConnectionPool(host='127.0.0.1', port=8080): Read timed out. (read timeout=2)`, TimedOut},
	{"git, cut answer", "127.0.0.1", `Invalid pkt-line length prefix: b'xxxx'`, ""},
	{"content, cut answer", "127.0.0.1", `('Connection broken: IncompleteRead(10 bytes read, 990 more expected)', IncompleteRead(10 bytes read, 990 more expected))`, Broken},
	{"git, no address", "nowhere.invalid", `HTTPSConnectionPool(host='nowhere.invalid', port=443): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by NameResolutionError("HTTPSConnection(host='nowhere.invalid', port=443): Failed to resolve 'nowhere.invalid' ([Errno -2] Name or service not known)"))`, Unresolved},
	{"git, self-signed certificate", "127.0.0.1", `HTTPSConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)')))`, TLS},
	{"git, no TLS", "127.0.0.1", `HTTPSConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: /owner/repo.git/info/refs?service=git-upload-pack (Caused by SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)')))`, TLS},
	{"a lister, 429", "127.0.0.1", `requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: http://127.0.0.1:8080/`, TooMany},
	{"a lister, 429 with Retry-After", "127.0.0.1", `requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: http://127.0.0.1:8080/`, TooMany},
	{"a lister, 503", "127.0.0.1", `requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://127.0.0.1:8080/`, Unavailable},
	{"a lister, 502", "127.0.0.1", `requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: http://127.0.0.1:8080/`, Unavailable},
	{"a lister, 504", "127.0.0.1", `requests.exceptions.HTTPError: 504 Server Error: Gateway Timeout for url: http://127.0.0.1:8080/`, Unavailable},
	{"a lister, 500", "127.0.0.1", `requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: http://127.0.0.1:8080/`, ""},
	{"a lister, 529", "127.0.0.1", `requests.exceptions.HTTPError: 529 Server Error:  for url: http://127.0.0.1:8080/`, Unavailable},
	{"a lister, 403", "127.0.0.1", `requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: http://127.0.0.1:8080/`, ""},
	{"a lister, 401", "127.0.0.1", `requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: http://127.0.0.1:8080/`, ""},
	{"a lister, 404", "127.0.0.1", `requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://127.0.0.1:8080/`, ""},
	{"a lister, refused connection", "127.0.0.1", `requests.exceptions.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: / (Caused by NewConnectionError("HTTPConnection(host='127.0.0.1', port=8080): Failed to establish a new connection: [Errno 111] Connection refused"))`, Refused},
	{"a lister, reset connection", "127.0.0.1", `requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))`, Broken},
	{"a lister, closed connection", "127.0.0.1", `requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))`, Broken},
	{"tarball, no answer", "127.0.0.1", `HTTPConnectionPool(host='127.0.0.1', port=8080): Read timed out. (read timeout=2)`, TimedOut},
	{"a lister, no answer", "127.0.0.1", `requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=8080): Read timed out. (read timeout=2)`, TimedOut},
	{"tarball, cut answer", "127.0.0.1", `('Connection broken: IncompleteRead(10 bytes read, 990 more expected)', IncompleteRead(10 bytes read, 990 more expected))`, Broken},
	{"a lister, cut answer", "127.0.0.1", `requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(10 bytes read, 990 more expected)', IncompleteRead(10 bytes read, 990 more expected))`, Broken},
	{"a lister, no address", "nowhere.invalid", `requests.exceptions.ConnectionError: HTTPSConnectionPool(host='nowhere.invalid', port=443): Max retries exceeded with url: / (Caused by NameResolutionError("HTTPSConnection(host='nowhere.invalid', port=443): Failed to resolve 'nowhere.invalid' ([Errno -2] Name or service not known)"))`, Unresolved},
	{"a lister, self-signed certificate", "127.0.0.1", `requests.exceptions.SSLError: HTTPSConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: / (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)')))`, TLS},
	{"a lister, no TLS", "127.0.0.1", `requests.exceptions.SSLError: HTTPSConnectionPool(host='127.0.0.1', port=8080): Max retries exceeded with url: / (Caused by SSLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)')))`, TLS},
}

// other are errors of other loaders and versions, by the documentation of their libraries.
var other = []struct {
	name, host, text string
	want             Kind
}{
	{"git's own client", "git.example.org", "fatal: unable to access 'https://git.example.org/a/': The requested URL returned error: 429", TooMany},
	{"git without an address", "git.example.org", "fatal: unable to access 'https://git.example.org/a/': Could not resolve host: git.example.org", Unresolved},
	{"subversion", "svn.example.org", "Unexpected HTTP status 503 'Service Unavailable' on '/svn'", Unavailable},
	{"mercurial", "hg.example.org", "mercurial.error.Abort: HTTP Error 429: Too Many Requests", TooMany},
	{"urllib3 after its retries", "git.example.org", "HTTPSConnectionPool(host='git.example.org', port=443): Max retries exceeded with url: /a (Caused by ResponseError('too many 429 error responses'))", TooMany},
	{"a connection that times out", "git.example.org", "HTTPSConnectionPool(host='git.example.org', port=443): Max retries exceeded with url: /a (Caused by ConnectTimeoutError(<HTTPSConnection>, 'Connection to git.example.org timed out. (connect timeout=120)'))", TimedOut},
	{"a time-out of TCP", "git.example.org", "[Errno 110] Connection timed out", TimedOut},
	{"a socket's time-out", "git.example.org", "TimeoutError: The read operation timed out", TimedOut},
	{"git's protocol", "git.example.org", "The remote server unexpectedly closed the connection.", Broken},
	{"a limit in words", "api.example.org", "Rate limit exceeded for user 1", TooMany},
	{"a limit with another status", "api.example.org", "403 Client Error: rate limit exceeded for url: https://api.example.org/a", TooMany},
	{"a host in capitals", "git.example.org", "unexpected http resp 429 for https://GIT.Example.org/a.git/info/refs", TooMany},
	{"the first status of a proxy", "git.example.org", "HTTP Error 520: Web Server Returned an Unknown Error", Unavailable},
	{"the last status of a proxy", "git.example.org", "HTTP Error 530: Origin DNS Error", Unavailable},
	{"a host of the same site", "example.org", "429 Client Error: Too Many Requests for url: https://codeload.example.org/a", TooMany},

	{"the archive's storage", "git.example.org", "swh.storage.exc.StorageAPIError: An unexpected error occurred in the api backend: HTTPConnectionPool(host='storage.internal', port=5002): Max retries exceeded with url: /content/add (Caused by NewConnectionError(\"Connection refused\"))", ""},
	{"another site", "git.example.org", "503 Server Error: Service Unavailable for url: http://storage.internal/content/add", ""},
	{"the worker's time limit", "git.example.org", "SoftTimeLimitExceeded()", ""},
	{"a lost worker", "git.example.org", "billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 1.", ""},
	{"an origin's own fault", "git.example.org", "KeyError: b'HEAD'", ""},
	{"a pack that is too big", "git.example.org", "Pack file too big for repository https://git.example.org/429/503, limit is 4294967296 bytes, current size is 429", ""},
	{"a name in a path", "git.example.org", "Invalid pkt-line length prefix: b'HTTP Error'", ""},
	{"a status beyond those of proxies", "git.example.org", "HTTP Error 531: Unknown", ""},
	{"what follows a long text", "git.example.org", strings.Repeat("x", maxRead) + " HTTP Error 429", ""},
	{"nothing", "git.example.org", "", ""},
}

// The kind of each error of a loader follows from its text, and none from other errors.
func TestKind(t *testing.T) {
	t.Parallel()
	for _, c := range append(recorded, other...) {
		if got := Of(c.text, c.host, time.Time{}); got.Kind != c.want {
			t.Errorf("%s: %q, want %q: %s", c.name, got.Kind, c.want, c.text)
		}
	}
}

// The wait that a hoster asks for counts from the event, whatever its clock says. It is bounded.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	received := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"429, Retry-After: 30": 30 * time.Second,
		"{'Retry-After': '120'} of an HTTP Error 429: Too Many Requests":         2 * time.Minute,
		"HTTP Error 429: retry after 15":                                         15 * time.Second,
		"HTTP Error 429: Too Many Requests, try again in 40s":                    40 * time.Second,
		"HTTP Error 503: Retry-After: Fri, 27 Nov 2026 12:10:00 GMT":             10 * time.Minute,
		"HTTP Error 503: Retry-After: Fri, 27 Nov 2026 11:00:00 GMT":             -time.Hour,
		"HTTP Error 503: Retry-After: Wed, 21 Oct 2099 07:28:00 GMT":             maxWait,
		"HTTP Error 503: Retry-After: 999999999999999999":                        maxWait,
		"HTTP Error 503: Retry-After: Friday, 27-Nov-26 12:00:10 GMT":            10 * time.Second,
		"HTTP Error 503: Retry-After: soon":                                      0,
		"HTTP Error 503: Retry-After: 99999999999999999999999999999999999999999": 0,
	} {
		if wait, said := retryAfter(text, received); wait != want || said != (want != 0) {
			t.Errorf("%q: %s, %v; want %s", text, wait, said, want)
		}
	}
}

// FuzzOf finds no text that costs much or that asks for an unbounded wait.
func FuzzOf(f *testing.F) {
	for _, c := range append(recorded, other...) {
		f.Add(c.text, c.host)
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		r := Of(text, host, time.Unix(1e9, 0))
		if r.RetryAfter > maxWait || r.RetryAfter < -maxWait || r.Kind == "" && r.Said {
			t.Errorf("%+v", r)
		}
	})
}
