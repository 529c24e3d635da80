package model

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Hint is the news of a source that an origin has changed.
type Hint struct {
	URL       string
	VisitType string    // "": every visit type of the URL
	ChangedAt time.Time // a zero or later date is the time of the transaction that writes the hint
	Source    string    // who has the news, such as github
}

// HintResult is what became of a hint.
type HintResult string

// The results of hints.
const (
	HintMoved    HintResult = "moved"    // the date of the origin's last update is now that of the hint
	HintNewer    HintResult = "newer"    // the origin has that date, or a later one
	HintRepeated HintResult = "repeated" // a visit waits for an update of less than a minute before
	HintUnknown  HintResult = "unknown"  // no lister lists the origin
	HintCreated  HintResult = "created"  // no lister listed the origin, which is now one of the lister of hints
	HintDisabled HintResult = "disabled" // all listers have the origin disabled
	HintRefused  HintResult = "refused"  // the hint isn't valid
)

// Known reports whether a hint is of an enabled origin.
func (r HintResult) Known() bool { return r == HintMoved || r == HintNewer || r == HintRepeated }

// HintRefusal is a hint that isn't valid, with the reason.
type HintRefusal struct {
	URL string `json:"url"` // at most its first 200 bytes
	Why string `json:"why"`
}

// HintAnswer counts hints by result.
type HintAnswer struct {
	Moved    int           `json:"moved"`
	Newer    int           `json:"newer"`
	Repeated int           `json:"repeated"`
	Unknown  int           `json:"unknown"`
	Created  int           `json:"created"`
	Disabled int           `json:"disabled"`
	Refused  int           `json:"refused"`
	Refusals []HintRefusal `json:"refusals,omitempty"` // the first 10
}

// Counts returns the counts by result.
func (a *HintAnswer) Counts() map[HintResult]*int {
	return map[HintResult]*int{
		HintMoved: &a.Moved, HintNewer: &a.Newer, HintRepeated: &a.Repeated, HintUnknown: &a.Unknown,
		HintCreated: &a.Created, HintDisabled: &a.Disabled, HintRefused: &a.Refused,
	}
}

// Add counts results.
func (a *HintAnswer) Add(results ...HintResult) {
	counts := a.Counts()
	for _, r := range results {
		*counts[r]++
	}
}

// Refuse counts a hint that isn't valid.
func (a *HintAnswer) Refuse(url string, why error) {
	a.Refused++
	if len(a.Refusals) < 10 {
		a.Refusals = append(a.Refusals, HintRefusal{strings.ToValidUTF8(url[:min(len(url), 200)], "\ufffd"), why.Error()})
	}
}

// Total returns the number of counted hints.
func (a *HintAnswer) Total() (n int) {
	for _, count := range a.Counts() {
		n += *count
	}
	return n
}

// Sum adds the counts of another answer.
func (a *HintAnswer) Sum(b HintAnswer) {
	counts := a.Counts()
	for r, n := range b.Counts() {
		*counts[r] += *n
	}
	a.Refusals = append(a.Refusals, b.Refusals...)
	a.Refusals = a.Refusals[:min(len(a.Refusals), 10)]
}

// MaxHints is the most hints of one call.
const MaxHints = 1000

const maxHintURL = 2048 // bytes

var (
	hintSource    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	hintVisitType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`)
)

// IsHintSource reports whether a text may be the name of a source of hints.
func IsHintSource(text string) bool { return hintSource.MatchString(text) }

// Check returns why a hint isn't valid, or nil. It doesn't quote the URL, which may have a password.
func (h Hint) Check() error {
	switch {
	case h.URL == "":
		return errors.New("the URL is empty")
	case len(h.URL) > maxHintURL:
		return fmt.Errorf("the URL has %d bytes, more than %d", len(h.URL), maxHintURL)
	case !utf8.ValidString(h.URL):
		return errors.New("the URL is not UTF-8")
	case strings.ContainsFunc(h.URL, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return errors.New("the URL has a blank or a control character")
	case HostOf(h.URL) == "":
		return errors.New("the URL has no host: it must be as listers write it, such as https://forge.example/user/project")
	case strings.Contains(authority(h.URL), `\`):
		return errors.New("the host of the URL has a backslash")
	case hasPassword(h.URL):
		return errors.New("the URL has a password")
	case h.VisitType != "" && !hintVisitType.MatchString(h.VisitType):
		return errors.New("the visit type must be a name such as git")
	case !IsHintSource(h.Source):
		return errors.New("the source must be a name of up to 63 letters, digits, dots, dashes and underscores")
	}
	return nil
}

// hasPassword reports whether the authority of a URL has a password.
func hasPassword(url string) bool {
	of := authority(url)
	at := strings.LastIndex(of, "@")
	return at >= 0 && strings.Contains(of[:at], ":")
}

// authority returns the part of a URL between its scheme and its path.
func authority(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	of, _, _ := strings.Cut(rest, "/")
	return of
}

// Spellings returns the URLs under which listers may list an origin: first the given one; of an HTTP URL also those with
// and without .git, with a slash at the end, and of the other of http and https.
func Spellings(url string) []string {
	all := []string{url}
	scheme, rest, _ := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		if base := strings.TrimRight(url, "/"); base != url {
			all = append(all, base)
		}
		return all
	}
	host, path, _ := strings.Cut(rest, "/")
	base := strings.TrimSuffix(strings.TrimRight(strings.ToLower(host)+"/"+path, "/"), ".git")
	other := map[string]string{"http": "https", "https": "http"}[scheme]
	for _, scheme := range []string{scheme, other} {
		for _, end := range []string{"", ".git", "/"} {
			if one := scheme + "://" + base + end; one != url {
				all = append(all, one)
			}
		}
	}
	return all
}

// UnknownHints are the settings for hints of origins that no lister lists.
type UnknownHints struct {
	Lister    string // of the origins that hints create; "": hints only count
	Instance  string
	VisitType string // of a hint without one
	Max       int    // origins of that lister
}

// Creates reports whether hints create origins.
func (u UnknownHints) Creates() bool { return u.Lister != "" }

// MayCreate reports whether a hint may create an origin: only for an HTTP URL of a host with a domain name, without a
// user.
func (u UnknownHints) MayCreate(h Hint) bool {
	parsed, err := url.Parse(h.URL)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.User != nil {
		return false
	}
	name := strings.TrimSuffix(parsed.Hostname(), ".")
	_, err = netip.ParseAddr(name)
	dot := strings.LastIndex(name, ".")
	first, _ := utf8.DecodeRuneInString(name[dot+1:]) // a digit: resolvers take 127.0.0.0x1 for an address
	return err != nil && dot > 0 && unicode.IsLetter(first) && strings.Trim(parsed.Path, "/") != ""
}
