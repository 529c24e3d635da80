package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Broker is a RabbitMQ virtual host of the test.
type Broker struct {
	// URL is the AMQP URL, with the virtual host.
	URL string
	// ManagementURL is the root of the management API (without virtual host), with user and password.
	ManagementURL string
}

// RabbitMQ returns a fresh virtual host. It is deleted with its queues when the test ends; the server then closes its
// connections.
func RabbitMQ(t testing.TB) Broker {
	t.Helper()
	server, err := amqp.ParseURI(endpoint(t, rabbitMQVar))
	if err != nil {
		t.Fatalf("testenv: %s is no AMQP URL", rabbitMQVar)
	}
	vhost := randomName("test")
	manage(t, http.MethodPut, "api/vhosts/"+vhost, "")
	t.Cleanup(func() { manage(t, http.MethodDelete, "api/vhosts/"+vhost, "") })
	manage(t, http.MethodPut, "api/permissions/"+vhost+"/"+url.PathEscape(server.Username),
		`{"configure": ".*", "write": ".*", "read": ".*"}`)
	server.Vhost = vhost
	return Broker{URL: server.String(), ManagementURL: endpoint(t, managementVar)}
}

// User creates a user with all rights in the virtual host and access to the management API, deleted when the test
// ends.
func (b Broker) User(t testing.TB, password string) (name string) {
	t.Helper()
	return b.Tagged(t, password, "monitoring", true)
}

// Tagged creates a user as User does, with other tags than monitoring, joined by commas, and with or without rights
// in the virtual host.
func (b Broker) Tagged(t testing.TB, password, tags string, rights bool) (name string) {
	t.Helper()
	server, err := amqp.ParseURI(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	name = randomName("user")
	b.Tag(t, name, password, tags)
	t.Cleanup(func() { manage(t, http.MethodDelete, "api/users/"+name, "") })
	if rights {
		manage(t, http.MethodPut, "api/permissions/"+server.Vhost+"/"+name, `{"configure": ".*", "write": ".*", "read": ".*"}`)
	}
	return name
}

// Tag replaces a user's tags, joined by commas.
func (b Broker) Tag(t testing.TB, user, password, tags string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"password": password, "tags": tags})
	if err != nil {
		t.Fatal(err)
	}
	manage(t, http.MethodPut, "api/users/"+user, string(body))
}

// Permit replaces a user's rights in the virtual host, by patterns.
func (b Broker) Permit(t testing.TB, user, configure, write, read string) {
	t.Helper()
	server, err := amqp.ParseURI(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"configure": configure, "write": write, "read": read})
	if err != nil {
		t.Fatal(err)
	}
	manage(t, http.MethodPut, "api/permissions/"+server.Vhost+"/"+user, string(body))
}

// manage calls the management API and fails the test unless it succeeds. It repeats a request whose answer was lost:
// on a loaded machine RabbitMQ closes the connection after 60 s, and each of these requests is idempotent.
func manage(t testing.TB, method, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	root, err := url.Parse(endpoint(t, managementVar))
	if err != nil {
		t.Fatalf("testenv: %s is no URL", managementVar)
	}
	// The default client would keep idle connections, which leak checks of other packages would find.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var response *http.Response
	repeated := false
	for {
		request, err := http.NewRequestWithContext(ctx, method, root.JoinPath(path).String(), bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if response, err = client.Do(request); err == nil {
			break
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("testenv: RabbitMQ management: %v", err)
		}
		repeated = true
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	gone := repeated && method == http.MethodDelete && response.StatusCode == http.StatusNotFound
	if err == nil && response.StatusCode >= 300 && !gone {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	if err != nil {
		t.Fatalf("testenv: RabbitMQ management: %s %s: %v", method, path, err)
	}
}
