package rpc

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS returns a configuration with the certificate and the key of two PEM files. It reads the files again when one
// of them has changed. If they can't be read, or don't match, it keeps the old certificate and logs that.
func TLS(certificate, key string, log *slog.Logger) (*tls.Config, error) {
	r := &reloaded{certificate: certificate, key: key, log: log}
	if err := r.load(r.changes()); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: r.get}, nil
}

// reloaded is a certificate that is read again when its files change.
type reloaded struct {
	certificate, key string
	log              *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	at      [2]time.Time // times of change of the files that it was read from
	refused [2]time.Time // times of change of the files that were refused last
}

// changes returns when the files changed last, zero for a missing file.
func (r *reloaded) changes() (at [2]time.Time) {
	for i, file := range []string{r.certificate, r.key} {
		if info, err := os.Stat(file); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

func (r *reloaded) load(at [2]time.Time) error {
	pair, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return fmt.Errorf("tls_certificate %s with tls_key %s: %w", r.certificate, r.key, err)
	}
	r.current, r.at = &pair, at
	return nil
}

func (r *reloaded) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	at := r.changes()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at == r.at {
		return r.current, nil
	}
	switch err := r.load(at); {
	case err == nil:
		r.log.Info("the certificate has changed", "file", r.certificate)
	case at != r.refused:
		r.refused = at
		r.log.Error("the certificate has changed and can't be used; the one before stays", "file", r.certificate, "error", err)
	}
	return r.current, nil
}
