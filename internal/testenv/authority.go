package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Pair is a certificate with its key, valid for an hour.
type Pair struct {
	tls.Certificate // with its Leaf
	PEM, KeyPEM     string
}

// Pool returns a pool of only this certificate.
func (p Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Leaf)
	return pool
}

// Authority makes the certificate of a new authority.
func Authority(t testing.TB) Pair {
	t.Helper()
	return issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// Issue returns a certificate signed by the authority, for a server or a client with a host's name or address.
func (p Pair) Issue(t testing.TB, host string) Pair {
	t.Helper()
	certificate := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		certificate.DNSNames, certificate.IPAddresses = nil, []net.IP{ip}
	}
	return issue(t, certificate, &p)
}

// issue returns a certificate signed by an authority, or by itself if by is nil.
func issue(t testing.TB, certificate *x509.Certificate, by *Pair) (pair Pair) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	certificate.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	certificate.NotBefore, certificate.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		by = &Pair{Certificate: tls.Certificate{Leaf: certificate, PrivateKey: key}}
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, by.Leaf, key.Public(), by.PrivateKey)
	check(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	check(err)
	pair.PEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	pair.KeyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	pair.Certificate, err = tls.X509KeyPair([]byte(pair.PEM), []byte(pair.KeyPEM))
	check(err)
	return pair
}
