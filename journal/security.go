package journal

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/youmark/pkcs8"
)

// securitySettings are the settings of TLS and SASL, empty where not set. The
// defaults are librdkafka's.
type securitySettings struct {
	protocol                      string // plaintext, ssl, sasl_plaintext, sasl_ssl
	mechanism, username, password string
	caLocation, caPEM             string
	certLocation, certPEM         string
	keyLocation, keyPEM           string
	keyPassword                   string
	identification                string // https, or none: whether the host name is checked
	verify                        *bool  // whether the certificate is checked at all
}

func (s securitySettings) options() (opts []kgo.Opt, warnings []string, err error) {
	protocol := strings.ToLower(s.protocol)
	if !slices.Contains([]string{"", "plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}, protocol) {
		return nil, nil, errors.New(`consumer setting "security.protocol": expected plaintext, ssl, sasl_plaintext or sasl_ssl`)
	}
	if strings.HasSuffix(protocol, "ssl") {
		config, err := s.tls()
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(protocol, "sasl") {
		mechanism, err := s.sasl()
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	} else if s.mechanism != "" || s.username != "" || s.password != "" {
		warnings = append(warnings, `the consumer settings "sasl.…" have no effect: "security.protocol" is neither sasl_plaintext nor sasl_ssl`)
	}
	return opts, warnings, nil
}

func (s securitySettings) sasl() (sasl.Mechanism, error) {
	var mechanism sasl.Mechanism
	scramAuth := scram.Auth{User: s.username, Pass: s.password}
	switch strings.ToUpper(s.mechanism) {
	case "PLAIN":
		mechanism = plain.Auth{User: s.username, Pass: s.password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scramAuth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scramAuth.AsSha512Mechanism()
	case "":
		return nil, errors.New(`consumer setting "sasl.mechanism" is missing: its default, GSSAPI, is not supported; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`)
	default:
		return nil, errors.New(`consumer setting "sasl.mechanism" cannot be honoured: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`)
	}
	if s.username == "" || s.password == "" {
		return nil, errors.New(`consumer settings "sasl.username" and "sasl.password" are both needed`)
	}
	return mechanism, nil
}

func (s securitySettings) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if config.RootCAs, err = s.roots(); err != nil {
		return nil, err
	}
	if config.Certificates, err = s.certificates(); err != nil {
		return nil, err
	}
	if s.verify != nil && !*s.verify {
		config.InsecureSkipVerify = true // asked for by name
		return config, nil
	}
	switch s.identification {
	case "", "https":
	case "none":
		// The chain is still checked, only the name in the certificate is not.
		config.InsecureSkipVerify = true
		config.VerifyConnection = verifyChain(config.RootCAs)
	default:
		return nil, errors.New(`consumer setting "ssl.endpoint.identification.algorithm": expected https or none`)
	}
	return config, nil
}

func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		intermediates := x509.NewCertPool()
		for _, cert := range state.PeerCertificates[1:] {
			intermediates.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
		return err
	}
}

// roots returns the authorities to trust; nil means those of the system.
func (s securitySettings) roots() (*x509.CertPool, error) {
	name, certificates := "ssl.ca.pem", []byte(s.caPEM)
	if s.caPEM == "" {
		if s.caLocation == "" || s.caLocation == "probe" {
			return nil, nil
		}
		name = "ssl.ca.location"
		files := []string{s.caLocation}
		if info, err := os.Stat(s.caLocation); err == nil && info.IsDir() {
			files, _ = filepath.Glob(filepath.Join(s.caLocation, "*"))
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("consumer setting %q: %w", name, err)
			}
			certificates = append(append(certificates, b...), '\n')
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, fmt.Errorf("consumer setting %q: no PEM certificate there", name)
	}
	return pool, nil
}

// certificates returns the client's own, if it has any.
func (s securitySettings) certificates() ([]tls.Certificate, error) {
	cert, err := inlineOrFile("ssl.certificate.location", s.certPEM, s.certLocation)
	if err != nil {
		return nil, err
	}
	key, err := inlineOrFile("ssl.key.location", s.keyPEM, s.keyLocation)
	if err != nil {
		return nil, err
	}
	switch {
	case cert == nil && key == nil:
		return nil, nil
	case cert == nil || key == nil:
		return nil, errors.New(`consumer settings "ssl.certificate.location" and "ssl.key.location" are needed together`)
	}
	if key, err = decryptKey(key, s.keyPassword); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf(`consumer settings "ssl.certificate.location" and "ssl.key.location": %w`, err)
	}
	return []tls.Certificate{pair}, nil
}

func inlineOrFile(name, inline, file string) ([]byte, error) {
	switch {
	case inline != "":
		return []byte(inline), nil
	case file == "":
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("consumer setting %q: %w", name, err)
	}
	return b, nil
}

// decryptKey decrypts a private key in encrypted PKCS #8, as OpenSSL writes them,
// and returns others as they are.
func decryptKey(key []byte, password string) ([]byte, error) {
	block, _ := pem.Decode(key)
	if block == nil {
		return key, nil
	}
	if _, old := block.Headers["DEK-Info"]; old {
		return nil, errors.New(`consumer setting "ssl.key.location": this old way to encrypt a key is not supported; convert it with "openssl pkcs8 -topk8"`)
	}
	if block.Type != "ENCRYPTED PRIVATE KEY" {
		return key, nil
	}
	private, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
	if err != nil {
		return nil, errors.New(`consumer setting "ssl.key.password" does not open the key`)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf(`consumer setting "ssl.key.location": %w`, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
