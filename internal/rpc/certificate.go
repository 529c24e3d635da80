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
	if err := r.load(r.states()); err != nil {
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
	read    [2]fileState // of the files that it was read from
	refused [2]fileState // of the files that were refused last
}

// A fileState shows whether a file has changed. Two changes within one tick of the file system's clock have the same
// date.
type fileState struct {
	changed time.Time
	size    int64 // -1: the file is missing
}

func stateOf(file string) fileState {
	info, err := os.Stat(file)
	if err != nil {
		return fileState{size: -1}
	}
	return fileState{info.ModTime(), info.Size()}
}

func (r *reloaded) states() [2]fileState {
	return [2]fileState{stateOf(r.certificate), stateOf(r.key)}
}

func (r *reloaded) load(states [2]fileState) error {
	pair, err := tls.LoadX509KeyPair(r.certificate, r.key)
	if err != nil {
		return fmt.Errorf("tls_certificate %s with tls_key %s: %w", r.certificate, r.key, err)
	}
	r.current, r.read = &pair, states
	return nil
}

func (r *reloaded) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	states := r.states()
	r.mu.Lock()
	defer r.mu.Unlock()
	if states == r.read {
		return r.current, nil
	}
	switch err := r.load(states); {
	case err == nil:
		r.log.Info("the certificate has changed", "file", r.certificate)
	case states != r.refused:
		r.refused = states
		r.log.Error("the certificate has changed and can't be used; the one before stays", "file", r.certificate, "error", err)
	}
	return r.current, nil
}
