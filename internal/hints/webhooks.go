package hints

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
)

// Path is the path below which sources send webhooks.
const Path = "/hints/"

const (
	maxBody     = 25 << 20 // bytes of a webhook: GitHub sends none that are larger
	maxBodies   = 64 << 20 // bytes of all webhooks that are read
	maxStrange  = 32 << 20 // bytes of those from addresses without a right signature within rightKept
	bodyStep    = 8 << 10  // bytes for which a body of unknown size has room at first
	bodyTimeout = 10 * time.Second
	// writeTimeout is the time for the hints of a webhook: forges wait 10 s for an answer.
	writeTimeout = 8 * time.Second

	addressPerSecond = 500
	addressBurst     = 2000
	// wrongCosts is how many webhooks a wrong signature costs its address, unless a right one came from there within
	// rightKept. A forge's addresses also send the webhooks of strangers, with any signature.
	wrongCosts = 50
	rightKept  = time.Hour
)

// DefaultMaxPerSecond is the default of Source.MaxPerSecond.
const DefaultMaxPerSecond = 1000

// Source is a source of webhooks.
type Source struct {
	Name         string   // the last part of its path, and the source of its hints
	Forge        string   // one of Forges
	Secrets      []string // any of them signs
	Hosts        []string // that it may name; * stands for any part of one
	MaxPerSecond int      // hints
}

// Hinter writes hints.
type Hinter interface {
	Hint(ctx context.Context, hints []model.Hint) (model.HintAnswer, error)
}

// Options make Webhooks.
type Options struct {
	Sources []Source
	Hints   Hinter
	From    func(*http.Request) netip.Prefix // the source address of a request
	Log     *slog.Logger
	Reg     prometheus.Registerer
	Now     func() time.Time // nil: time.Now
}

// Webhooks serves the webhooks of sources, below Path. It is safe for concurrent use.
type Webhooks struct {
	Options
	sources    map[string]source
	addresses  *limiter[netip.Prefix]
	right      recent[netip.Prefix] // addresses of right signatures
	bodies     *semaphore.Weighted
	strange    *semaphore.Weighted // part of bodies
	deliveries deliveries
	refusals   service.LogLimit
	count      *prometheus.CounterVec
}

// source is a Source with its limit.
type source struct {
	Source
	forge forge
	limit *limiter[struct{}]
}

// New returns the Webhooks of some sources.
func New(o Options) *Webhooks {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &Webhooks{
		Options: o, sources: map[string]source{}, addresses: newLimiter[netip.Prefix](addressPerSecond, addressBurst), bodies: semaphore.NewWeighted(maxBodies), strange: semaphore.NewWeighted(maxStrange),
		count: promauto.With(o.Reg).NewCounterVec(prometheus.CounterOpts{
			Name: "swh_scheduler_webhooks_total",
			Help: "Webhooks by source and result: written, ignored (events without changes, private repositories), replayed, limited, unsigned (wrong signature), refused (not valid), failed (try again). The source of an unknown path is empty.",
		}, []string{"source", "result"}),
	}
	for _, s := range o.Sources {
		w.sources[s.Name] = source{s, forges[s.Forge], newLimiter[struct{}](s.MaxPerSecond, 2*s.MaxPerSecond)}
	}
	return w
}

// result is the answer to a webhook.
type result struct {
	status int
	name   string // in the metric
	text   string // the reason, or "" with counts
	counts model.HintAnswer
	wait   time.Duration // until a retry makes sense
}

// ServeHTTP answers a webhook with the counts of its hints by result, or the reason why it is not accepted.
func (w *Webhooks) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Path)
	s, known := w.sources[name]
	var answer result
	if known {
		answer = w.receive(s, out, r)
	} else {
		name, answer = "", result{status: http.StatusNotFound, name: "refused", text: "there is no source of hints of that name"}
	}
	w.count.WithLabelValues(name, answer.name).Inc()
	if answer.status >= http.StatusBadRequest {
		if held, ok := w.refusals.Log(name + " " + answer.name); ok {
			w.Log.Warn("webhook not accepted", "source", name, "address", w.From(r), "status", answer.status, "reason", answer.text, "not_logged_before", held)
		}
	}
	if answer.wait > 0 {
		out.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(answer.wait.Seconds()))))
	}
	var body any = answer.counts
	if answer.text != "" {
		body = map[string]string{"reason": answer.text}
	}
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte("{}")
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(answer.status)
	_, _ = out.Write(append(text, '\n')) // fails only if the client is gone
}

// receive reads, checks and writes a webhook of a source.
func (w *Webhooks) receive(s source, out http.ResponseWriter, r *http.Request) result {
	from, now := w.From(r), w.Now()
	if r.Method != http.MethodPost {
		out.Header().Set("Allow", http.MethodPost)
		return result{status: http.StatusMethodNotAllowed, name: "refused", text: "webhooks are sent by POST"}
	}
	if wait, ok := w.addresses.take(from, 1, now); !ok {
		return result{status: http.StatusTooManyRequests, name: "limited", text: "there are too many webhooks from your address", wait: wait}
	}
	all, key, refusal := w.parse(s, out, r, now)
	if refusal != nil {
		if refusal.status == http.StatusUnauthorized && !w.right.has(from, now) {
			w.addresses.charge(from, wrongCosts, now)
		}
		return *refusal
	}
	for i := range all {
		if all[i].Source = s.Name; !s.mayName(all[i].URL) {
			return result{status: http.StatusForbidden, name: "refused", text: fmt.Sprintf("the source %s may not name that host (hosts)", s.Name)}
		}
	}
	if wait, ok := s.limit.take(struct{}{}, len(all), now); !ok {
		return result{status: http.StatusTooManyRequests, name: "limited", text: "there are too many hints of this source", wait: wait}
	}
	return w.write(r.Context(), all, key)
}

// write writes hints, and records their webhook once they are committed.
func (w *Webhooks) write(ctx context.Context, all []model.Hint, key [16]byte) result {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	counts, err := w.Hints.Hint(ctx, all)
	if err != nil {
		return result{status: http.StatusServiceUnavailable, name: "failed", text: "the hints can't be written now; try again", wait: 5 * time.Second}
	}
	if len(counts.Refusals) > 0 && counts.Refused == len(all) {
		return result{status: http.StatusBadRequest, name: "refused", text: counts.Refusals[0].Why}
	}
	if counts.Unknown+counts.Disabled < len(all) { // else it may be sent again once a lister lists the origin
		w.deliveries.add(key, w.Now())
	}
	return result{status: http.StatusOK, name: "written", counts: counts}
}

// parse reads a body, checks its signature, and returns its hints and its hash.
func (w *Webhooks) parse(s source, out http.ResponseWriter, r *http.Request, now time.Time) (all []model.Hint, key [16]byte, refusal *result) {
	body, release, refusal := w.read(out, r)
	defer release()
	if refusal != nil {
		return nil, key, refusal
	}
	if !s.forge.signed(r.Header, body, s.Secrets, now) {
		why := "the signature is wrong: the source has another secret, or its date is more than five minutes off"
		if name := s.forge.missingSignature(r.Header); name != "" {
			why = "the signature is missing (" + name + "): give the webhook at the forge the secret of the source"
		}
		return nil, key, &result{status: http.StatusUnauthorized, name: "unsigned", text: why}
	}
	w.right.add(w.From(r), now.Add(rightKept), now)
	if key = hashOf(s.Name, body); w.deliveries.known(key, now) {
		return nil, key, &result{status: http.StatusOK, name: "replayed", text: "that webhook has been received before"}
	}
	all, err := s.forge.hintsOf(r.Header, body)
	switch {
	case errors.Is(err, errIgnored):
		return nil, key, &result{status: http.StatusOK, name: "ignored", text: err.Error()}
	case err != nil:
		return nil, key, &result{status: http.StatusBadRequest, name: "refused", text: err.Error()}
	}
	return all, key, nil
}

// read reads a body. It reserves room for what has come only, so that bodies that come slowly keep none from others.
// The caller calls release when it has read the body.
func (w *Webhooks) read(out http.ResponseWriter, r *http.Request) (body []byte, release func(), refusal *result) {
	room := []*semaphore.Weighted{w.bodies}
	if !w.right.has(w.From(r), w.Now()) {
		room = append(room, w.strange)
	}
	var reserved int64
	release = func() { freeRoom(room, reserved) }
	tooLarge := &result{status: http.StatusRequestEntityTooLarge, name: "refused", text: fmt.Sprintf("the body has more than %d bytes", maxBody)}
	if r.ContentLength > maxBody {
		return nil, release, tooLarge
	}
	_ = http.NewResponseController(out).SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only if the client is gone
	var read bytes.Buffer
	from := http.MaxBytesReader(out, r.Body, maxBody)
	for step := int64(bodyStep); ; step = reserved {
		if size := r.ContentLength - int64(read.Len()) + 1; r.ContentLength >= 0 {
			step = max(min(step, size), 1)
		}
		if !takeRoom(room, step) {
			return nil, release, &result{status: http.StatusServiceUnavailable, name: "failed", text: "too many webhooks are read; try again", wait: time.Second}
		}
		reserved += step
		_, err := io.CopyN(&read, from, step)
		if errors.Is(err, io.EOF) {
			break
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, release, tooLarge
		}
		if err != nil {
			return nil, release, &result{status: http.StatusBadRequest, name: "refused", text: "the body can't be read"}
		}
	}
	_ = http.NewResponseController(out).SetReadDeadline(time.Time{})
	return read.Bytes(), release, nil
}

// takeRoom acquires n of all semaphores, or of none.
func takeRoom(room []*semaphore.Weighted, n int64) bool {
	for i, one := range room {
		if !one.TryAcquire(n) {
			freeRoom(room[:i], n)
			return false
		}
	}
	return true
}

func freeRoom(room []*semaphore.Weighted, n int64) {
	for _, one := range room {
		one.Release(n)
	}
}

// mayName reports whether a source may name the host of a URL. A URL without a host is refused later.
func (s source) mayName(url string) bool {
	host := model.HostOf(url)
	return host == "" || slices.ContainsFunc(s.Hosts, func(pattern string) bool { return hostMatches(pattern, host) })
}

// hostMatches reports whether a host is that of a pattern: itself, *.DOMAIN for each below a domain, or * for all.
func hostMatches(pattern, host string) bool {
	below, any := strings.CutPrefix(pattern, "*")
	return pattern == host || any && (below == "" || strings.HasPrefix(below, ".") && strings.HasSuffix(host, below))
}
