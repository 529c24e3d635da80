package celery_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/testenv"
	"swh-scheduler/internal/testenv/parsed"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	a.cert = a.sign(template, template, a.key)
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) write(name, kind string, der []byte) string {
	file := filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// issue makes a certificate and its key, as files and in memory.
func (a *authority) issue(name string) (certFile, keyFile string, pair tls.Certificate) {
	key := a.newKey()
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = a.write(name+".pem", "CERTIFICATE", cert.Raw), a.write(name+".key", "EC PRIVATE KEY", der)
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		a.t.Fatal(err)
	}
	return certFile, keyFile, pair
}

// A broker behind TLS is reached with an own authority, a client certificate
// and a server name, given in the URL; without any of them it isn't.
func TestTLS(t *testing.T) {
	t.Parallel()
	env := testenv.RabbitMQ(t)
	testenv.Declare(t, testenv.Channel(t, env.URL), "queue", nil)
	ca := newAuthority(t)
	_, _, server := ca.issue("broker.example.org")
	certFile, keyFile, _ := ca.issue("client.example.org")
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	if err != nil {
		t.Fatal(err)
	}
	x := injectInto(t, listener, testenv.Host(t, env.URL))
	secure := strings.Replace(testenv.WithHost(t, env.URL, x.addr), "amqp://", "amqps://", 1)
	query := func(keys ...string) string {
		all := url.Values{
			"cacertfile": {filepath.Join(ca.dir, "ca.pem")}, "certfile": {certFile}, "keyfile": {keyFile},
			"server_name_indication": {"broker.example.org"},
		}
		chosen := url.Values{}
		for _, k := range keys {
			chosen[k] = all[k]
		}
		return secure + "?" + chosen.Encode()
	}
	for _, c := range []struct {
		name, url string
		works     bool
	}{
		{"all in the URL", query("cacertfile", "certfile", "keyfile", "server_name_indication"), true},
		{"no check", query("certfile", "keyfile") + "&verify=verify_none", true},
		{"unknown authority", query("certfile", "keyfile", "server_name_indication"), false},
		{"other server name", query("cacertfile", "certfile", "keyfile"), false},
		{"no client certificate", query("cacertfile", "server_name_indication"), false},
		{"no file", secure + "?cacertfile=/nowhere", false},
	} {
		ctx := deadline(t)
		control := celery.NewControl(parsed.Broker(t, c.url), celery.ControlOptions{Timeout: time.Millisecond})
		if _, err := control.Ping(ctx, celery.Destination{}); (err == nil) != c.works {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.works {
			continue
		}
		p := publisher(t, parsed.Broker(t, c.url), celery.PublisherOptions{})
		if err := errors.Join(p.Publish(ctx, tasks("queue", 1))...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
