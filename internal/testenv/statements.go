package testenv

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Statements returns a URL of the database through a proxy. Each call of sent returns the statements sent through the
// proxy since the call before, including begin and commit.
func Statements(t testing.TB, dsn string) (proxied string, sent func() []string) {
	t.Helper()
	target, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("testenv: the database's URL is none")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxies.Store(listener.Addr().String(), target.Host)
	var m sync.Mutex
	var statements []string
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", target.Host)
				if err != nil {
					return
				}
				connections.Go(func() {
					_, _ = io.Copy(client, server)
					_ = client.Close()
				})
				follow(client, server, func(statement string) {
					m.Lock()
					defer m.Unlock()
					statements = append(statements, statement)
				})
				_ = server.Close()
			})
		}
	})
	t.Cleanup(func() { // after the test has closed its connections
		_ = listener.Close()
		connections.Wait()
	})
	through := *target
	through.Host = listener.Addr().String()
	through.RawQuery = url.Values{"sslmode": {"disable"}}.Encode()
	return through.String(), func() (since []string) {
		m.Lock()
		defer m.Unlock()
		since, statements = statements, nil
		return since
	}
}

// follow forwards a client's messages until the connection ends. It calls tell before the server gets a statement, so
// that no statement is missing once the server has answered.
func follow(client io.Reader, server io.Writer, tell func(statement string)) {
	frontend := pgproto3.NewBackend(client, nil)
	pass := func(message pgproto3.FrontendMessage) error {
		text, err := message.Encode(nil)
		if err == nil {
			_, err = server.Write(text)
		}
		return err
	}
	startup, err := frontend.ReceiveStartupMessage()
	if err == nil {
		err = pass(startup)
	}
	prepared, bound := map[string]string{}, ""
	for err == nil {
		var message pgproto3.FrontendMessage
		if message, err = frontend.Receive(); err != nil {
			return
		}
		switch message := message.(type) {
		case *pgproto3.Query:
			if !strings.HasPrefix(message.String, "-- ping") { // the pool's
				tell(message.String)
			}
		case *pgproto3.Parse:
			prepared[message.Name] = message.Query
		case *pgproto3.Bind:
			bound = prepared[message.PreparedStatement]
		case *pgproto3.Execute:
			tell(bound)
		}
		err = pass(message)
	}
}
