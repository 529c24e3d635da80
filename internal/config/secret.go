package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// Secret is a text that may hold a password. It prints as [redacted] in every
// way there is to print it; string(s) reveals it.
type Secret string

// String hides the secret, and says whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides the secret from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Settings are Kafka settings by librdkafka's names. Those whose name says that
// they are secret print as [redacted].
type Settings map[string]string

var secretName = regexp.MustCompile(`(?i)pass|secret|token|credential|oauth|sasl\.jaas|\.key$|key\.pem$|^ssl\.key`)

// Public are the settings with secrets redacted.
func (s Settings) Public() map[string]string {
	shown := maps.Clone(map[string]string(s))
	for name := range shown {
		if secretName.MatchString(name) {
			shown[name] = redacted
		}
	}
	return shown
}

// String lists the settings by name, without secrets.
func (s Settings) String() string {
	shown := s.Public()
	var words []string
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		words = append(words, name+"="+shown[name])
	}
	return "{" + strings.Join(words, " ") + "}"
}

// Format hides secrets from every verb of fmt.
func (s Settings) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue hides secrets from slog.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides secrets from encoders.
func (s Settings) MarshalJSON() ([]byte, error) { return json.Marshal(s.Public()) }
