package door

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// Credentials are a client's credentials for an RPC server, besides the user and the password in its address. The
// zero value is none.
type Credentials struct {
	Certificate, Key string // PEM files; one file may hold both; "" for none. They are read for each connection
	Authorities      string // PEM file of the authorities for the server's certificate; "" for those of the system
	Authorization    string // the header's value; "" for none
}

// TLS returns the configuration of a connection. An error names the file that is wrong.
func (c Credentials) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Authorities != "" {
		text, err := os.ReadFile(c.Authorities)
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("verify: %s: there is no certificate in it", c.Authorities)
		}
	}
	if c.Certificate == "" {
		return config, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert: %s with the key of %s: %w", c.Certificate, c.Key, err)
		}
		return &pair, nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	_, err := load()
	return config, err
}

// Sign adds the header to a request.
func (c Credentials) Sign(r *http.Request) {
	if c.Authorization != "" {
		r.Header.Set("Authorization", c.Authorization)
	}
}
