package rpc

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Authority verifies the certificates of clients by a PEM file of certificates of authorities. It reads the file
// again when it has changed. While the file is unusable, Authority uses the old one, and logs that.
type Authority struct {
	file string
	log  *slog.Logger

	mu       sync.Mutex
	pool     *x509.CertPool
	text     []byte
	read     fileState // of the file that it was read from
	refused  fileState
	verified map[[sha256.Size]byte]span // certificates, by their hash
}

// span is the time in which a certificate and those above it are valid.
type span struct{ from, until time.Time }

// maxVerified bounds the stored certificates.
const maxVerified = 4 * 1000

// NewAuthority reads the file of an authority.
func NewAuthority(file string, log *slog.Logger) (*Authority, error) {
	a := &Authority{file: file, log: log}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Authority) load() error {
	state := stateOf(a.file)
	text, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("client_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("client_ca %s: there is no certificate in it", a.file)
	}
	a.pool, a.text, a.read, a.verified = pool, text, state, map[[sha256.Size]byte]span{}
	return nil
}

// current returns the pool of the file, which it reads again if it has changed. The caller holds mu.
func (a *Authority) current() *x509.CertPool {
	state := stateOf(a.file)
	if state == a.read {
		return a.pool
	}
	before := a.text
	switch err := a.load(); {
	case err != nil && a.refused != state:
		a.refused = state
		a.log.Error("the authority of clients' certificates has changed and can't be used; the one before stays", "file", a.file, "error", err)
	case err == nil && !bytes.Equal(before, a.text):
		a.log.Info("the authority of clients' certificates has changed", "file", a.file)
	}
	return a.pool
}

// ask returns a configuration that requests a certificate from clients. Verify checks it with the request, so that
// the error for a wrong one is an answer of the protocol.
func (a *Authority) ask(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.ClientAuth = tls.RequestClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := config.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, a.current() // the client gets the names of these authorities
		return now, nil
	}
	return config
}

// verify returns an error unless the authority of the present file has issued a client's certificates, the first of
// which is the client's own.
func (a *Authority) verify(chain []*x509.Certificate, now time.Time) error {
	leaf := chain[0]
	sum := sha256.Sum256(leaf.Raw)
	a.mu.Lock()
	defer a.mu.Unlock()
	roots := a.current()
	if valid, known := a.verified[sum]; known && now.After(valid.from) && now.Before(valid.until) {
		return nil
	}
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return err
	}
	valid := span{leaf.NotBefore, leaf.NotAfter}
	for _, one := range chains[0] {
		if one.NotAfter.Before(valid.until) {
			valid.until = one.NotAfter
		}
		if one.NotBefore.After(valid.from) {
			valid.from = one.NotBefore
		}
	}
	if len(a.verified) >= maxVerified {
		clear(a.verified)
	}
	a.verified[sum] = valid
	return nil
}

// certificateError is the error of a client's certificate.
type certificateError struct{ text string }

func (e *certificateError) Error() string { return e.text }

// certified returns the identity of the certificate of a request's connection.
func (s *Server) certified(a *access, r *http.Request) (*identity, error) {
	if s.ClientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, ErrWrongCredentials
	}
	chain := r.TLS.PeerCertificates
	if err := s.ClientCA.verify(chain, time.Now()); err != nil {
		return nil, &certificateError{"The certificate is not accepted: " + brief(err.Error())}
	}
	id := a.ofCertificate(chain[0])
	if id == nil {
		return nil, &certificateError{"There is no client with the certificate of " + brief(strings.Join(certificateNames(chain[0]), ", "))}
	}
	return &identity{id.client, id.credential, func(other *access) *identity {
		if s.ClientCA.verify(chain, time.Now()) != nil {
			return nil
		}
		return id.again(other)
	}}, nil
}
