package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are those of OpenTelemetry's variables OTEL_EXPORTER_OTLP_… for traces.
type settings struct {
	url     string
	headers http.Header
	gzip    bool
	timeout time.Duration // of a request
	tls     *tls.Config
}

// settingsOf reads the variables. OTEL_EXPORTER_OTLP_TRACES_X takes precedence over OTEL_EXPORTER_OTLP_X. An error
// names the variable and omits its value, which may have a password or a token.
func settingsOf(getenv func(string) string) (settings, error) {
	s := settings{headers: make(http.Header), timeout: 10 * time.Second, tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	variable := func(name string) (key, value string) {
		for _, key = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value = strings.TrimSpace(getenv(key)); value != "" {
				break
			}
		}
		return key, value
	}
	key, endpoint := variable("ENDPOINT")
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return s, fmt.Errorf("%s must be the address of a collector, such as http://collector:4318", key)
	}
	if key == "OTEL_EXPORTER_OTLP_ENDPOINT" { // of all signals
		u = u.JoinPath("v1/traces")
	}
	s.url = u.String()
	if key, value := variable("HEADERS"); value != "" {
		for pair := range strings.SplitSeq(value, ",") {
			name, text, ok := strings.Cut(pair, "=")
			text, err := url.PathUnescape(strings.TrimSpace(text))
			if name = strings.TrimSpace(name); !ok || err != nil || name == "" {
				return s, fmt.Errorf("%s must be a list such as name=value,name=value, with values in percent-encoding", key)
			}
			s.headers.Set(name, text)
		}
	}
	if key, value := variable("TIMEOUT"); value != "" {
		ms, err := strconv.Atoi(value)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("%s must be a number of milliseconds above 0", key)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch key, value := variable("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("%s must be gzip or none", key)
	}
	if key, value := variable("PROTOCOL"); value != "" && value != "http/protobuf" {
		return s, fmt.Errorf("%s must be http/protobuf, the only protocol here", key)
	}
	if key, file := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		s.tls.RootCAs = x509.NewCertPool()
		if err == nil && !s.tls.RootCAs.AppendCertsFromPEM(pem) {
			err = errors.New("it has no certificate")
		}
		if err != nil {
			return s, fmt.Errorf("%s must be a file with certificates of authorities: %w", key, err)
		}
	}
	certificateKey, certificate := variable("CLIENT_CERTIFICATE")
	keyKey, file := variable("CLIENT_KEY")
	if certificate != "" || file != "" {
		pair, err := tls.LoadX509KeyPair(certificate, file)
		if err != nil {
			return s, fmt.Errorf("%s and %s must be files with a certificate and its key: %w", certificateKey, keyKey, err)
		}
		s.tls.Certificates = []tls.Certificate{pair}
	}
	return s, nil
}
