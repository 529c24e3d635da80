package journal

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/youmark/pkcs8"
)

// securitySettings are the settings of TLS and SASL, empty if not set. Defaults are librdkafka's.
type securitySettings struct {
	protocol                      string // plaintext, ssl, sasl_plaintext, sasl_ssl
	mechanism, username, password string
	caLocation, caPEM             string
	certLocation, certPEM         string
	keyLocation, keyPEM           string
	keyPassword                   string
	identification                string // https or none: whether the client checks the host name
	verify                        *bool  // whether the client checks the certificate at all
}

func (s securitySettings) options() (opts []kgo.Opt, warnings []string, err error) {
	if strings.HasSuffix(s.protocol, "ssl") {
		config, err := s.tls()
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	} else if (securitySettings{mechanism: s.mechanism, username: s.username, password: s.password, protocol: s.protocol}) != s {
		warnings = append(warnings, `the consumer settings "ssl.…" have no effect: "security.protocol" is neither ssl nor sasl_ssl`)
	}
	if strings.HasPrefix(s.protocol, "sasl") {
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
		return nil, wrong("sasl.mechanism", "it is missing, and its default, GSSAPI, is not supported; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	default:
		return nil, wrong("sasl.mechanism", "it cannot be honoured: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	}
	switch {
	case s.username == "":
		return nil, wrong("sasl.username", "it is missing; with SASL, sasl.username and sasl.password are both needed")
	case s.password == "":
		return nil, wrong("sasl.password", "it is missing; with SASL, sasl.username and sasl.password are both needed")
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
		config.InsecureSkipVerify = true // the settings ask for it
		return config, nil
	}
	if s.identification == "none" {
		// The chain is checked; only the name in the certificate is not.
		config.InsecureSkipVerify = true
		config.VerifyConnection = verifyChain(config.RootCAs)
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

// roots returns the authorities to trust; nil means the system's. A PEM text takes precedence over a file.
func (s securitySettings) roots() (*x509.CertPool, error) {
	if s.caLocation == "probe" {
		s.caLocation = ""
	}
	if s.caLocation == "" && s.caPEM == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if s.caPEM != "" {
		if err := addAuthorities(pool, []byte(s.caPEM)); err != nil {
			return nil, wrong("ssl.ca.pem", "%s", err)
		}
		return pool, nil
	}
	if info, err := os.Stat(s.caLocation); err == nil && info.IsDir() {
		return pool, addDirectory(pool, s.caLocation)
	}
	text, err := readFile("ssl.ca.location", s.caLocation)
	if err != nil {
		return nil, err
	}
	if err := addAuthorities(pool, text); err != nil {
		return nil, wrong("ssl.ca.location", "%s", err)
	}
	return pool, nil
}

// addAuthorities adds all certificates of a PEM text. An unreadable certificate is an error, as in
// librdkafka.
func addAuthorities(pool *x509.CertPool, text []byte) error {
	const begin = "-----BEGIN CERTIFICATE-----"
	found := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate number %d there can't be read", found+1)
		}
		pool.AddCert(certificate)
		found++
	}
	switch begun := bytes.Count(text, []byte(begin)); {
	case found == 0 && begun == 0:
		return errors.New("no PEM certificate there")
	case found < begun:
		return fmt.Errorf("of %d PEM certificates there, %d can be read", begun, found)
	}
	return nil
}

// addDirectory adds the certificates in the files of a directory, and ignores other files.
func addDirectory(pool *x509.CertPool, directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return wrong("ssl.ca.location", "%s", err)
	}
	found := false
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // also skips dangling links
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return wrong("ssl.ca.location", "%s", err)
		}
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return wrong("ssl.ca.location", "no PEM certificate in that directory")
	}
	return nil
}

// readFile reads the file of a setting. Its errors don't show a key or certificate that stands in place of
// the file's name.
func readFile(setting, name string) ([]byte, error) {
	if strings.Contains(name, "-----BEGIN") || strings.ContainsAny(name, "\n\x00") {
		return nil, wrong(setting, "it must be the name of a file; for a text, use %s", strings.Replace(setting, ".location", ".pem", 1))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, wrong(setting, "%s", err)
	}
	return text, nil
}

// certificates returns the client's certificate, if it has one.
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
	case cert == nil:
		return nil, wrong("ssl.key.location", "it is given without ssl.certificate.location; both are needed")
	case key == nil:
		return nil, wrong("ssl.certificate.location", "it is given without ssl.key.location; both are needed, and may be the same file")
	}
	if key, err = decryptKey(key, s.keyPassword); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, wrong("ssl.certificate.location", "it and ssl.key.location don't go together: %s", err)
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
	return readFile(name, file)
}

// decryptKey decrypts a private key in encrypted PKCS #8, OpenSSL's format, and returns other keys
// unchanged. Certificates may precede the key.
func decryptKey(text []byte, password string) ([]byte, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, old := block.Headers["DEK-Info"]; old {
			return nil, wrong("ssl.key.location", `this old way to encrypt a key is not supported; convert it with "openssl pkcs8 -topk8"`)
		}
		if block.Type != "ENCRYPTED PRIVATE KEY" {
			continue
		}
		if password == "" {
			return nil, wrong("ssl.key.password", "it is missing, and the key is encrypted")
		}
		private, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(password))
		if err != nil {
			return nil, wrong("ssl.key.password", "it does not open the key")
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return nil, wrong("ssl.key.location", "%s", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	}
	return text, nil
}
