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

// Secret is a text that may hold a password. It prints as [redacted], or as nothing if it is empty, with every verb
// and encoder. string(s) returns the text.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Settings are Kafka settings by librdkafka's names. The values of secret settings print as [redacted].
type Settings map[string]string

var secretName = regexp.MustCompile(`(?i)pass|secret|token|credential|oauth|sasl\.jaas|\.key$|key\.pem$|^ssl\.key`)

// Public returns the settings with secrets redacted.
func (s Settings) Public() map[string]string {
	shown := maps.Clone(map[string]string(s))
	for name := range shown {
		if secretName.MatchString(name) {
			shown[name] = redacted
		}
	}
	return shown
}

func (s Settings) String() string {
	shown := s.Public()
	var words []string
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		words = append(words, name+"="+shown[name])
	}
	return "{" + strings.Join(words, " ") + "}"
}

func (s Settings) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s Settings) MarshalJSON() ([]byte, error) { return json.Marshal(s.Public()) }
func (s Settings) MarshalYAML() (any, error)    { return s.Public(), nil }
