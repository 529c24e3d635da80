package hints

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signedWithin is how far the date of a signature may be from the present, where the signature has one.
const signedWithin = 5 * time.Minute

// signed reports whether a webhook has a signature of one of the secrets. All comparisons of a secret take the same
// time for every wrong value.
func (f forge) signed(header http.Header, body []byte, secrets []string, now time.Time) bool {
	right := false
	for _, secret := range secrets {
		if secret != "" && f.signedWith(header, body, secret, now) {
			right = true
		}
	}
	return right
}

// missingSignature names the header in which a webhook should have its signature, or is empty if there is one.
func (f forge) missingSignature(header http.Header) string {
	names := slices.Clone(f.signatures)
	if f.token != "" {
		names = append(names, f.token)
	}
	if f.standard {
		names = append(names, "Webhook-Signature")
	}
	if slices.ContainsFunc(names, func(name string) bool { return header.Get(name) != "" }) {
		return ""
	}
	return names[0]
}

func (f forge) signedWith(header http.Header, body []byte, secret string, now time.Time) bool {
	if f.token != "" && equal([]byte(header.Get(f.token)), []byte(secret)) {
		return true
	}
	if f.standard && standardSigned(header, body, secret, now) {
		return true
	}
	for _, name := range f.signatures {
		given, err := hex.DecodeString(strings.TrimPrefix(header.Get(name), "sha256="))
		if err != nil || len(given) != sha256.Size {
			continue
		}
		if hmac.Equal(given, sum([]byte(secret), body)) {
			return true
		}
		// Gitea and Forgejo sign the JSON in a form, not the form.
		if payload, ok := formPayload(header, body); ok && hmac.Equal(given, sum([]byte(secret), payload)) {
			return true
		}
	}
	return false
}

// standardSigned reports whether a webhook is signed as Standard Webhooks and GitLab do: an HMAC of the identifier, the
// date and the body. A secret that begins with whsec_ is a key in base64.
func standardSigned(header http.Header, body []byte, secret string, now time.Time) bool {
	id, date := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil || id == "" || now.Sub(time.Unix(seconds, 0)).Abs() > signedWithin {
		return false
	}
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return false
		}
	}
	want := sum(key, []byte(id+"."+date+"."), body)
	for i, one := range strings.Fields(header.Get("Webhook-Signature")) {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "v1,"))
		if i < 10 && err == nil && strings.HasPrefix(one, "v1,") && hmac.Equal(given, want) {
			return true
		}
	}
	return false
}

func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

// equal compares secrets of any lengths in constant time.
func equal(a, b []byte) bool {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isForm reports whether a body is a form.
func isForm(header http.Header) bool {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}

// formPayload returns the JSON of a body that is a form, as forges send it: its field payload.
func formPayload(header http.Header, body []byte) ([]byte, bool) {
	if !isForm(header) {
		return nil, false
	}
	for field := range bytes.SplitSeq(body, []byte("&")) {
		if value, ok := bytes.CutPrefix(field, []byte("payload=")); ok {
			text, err := url.QueryUnescape(string(value))
			return []byte(text), err == nil
		}
	}
	return nil, false
}
