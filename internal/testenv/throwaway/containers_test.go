package throwaway

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// fakeDaemon has the images that were built here; its containers end at once.
type fakeDaemon struct {
	Daemon
	ran, removed []string
}

func (d *fakeDaemon) Has(image string) bool { return strings.HasSuffix(image, ":local") }

func (d *fakeDaemon) Run(o RunOptions) (Container, error) {
	d.ran = append(d.ran, o.Image)
	return fakeContainer{d}, nil
}

type fakeContainer struct{ *fakeDaemon }

func (c fakeContainer) Name() string         { return "fake" }
func (c fakeContainer) Wait()                {}
func (c fakeContainer) Log() (string, error) { return "no room\n", nil }
func (c fakeContainer) Remove() error {
	c.removed = append(c.removed, c.Name())
	return nil
}

// A container that ends while its server starts is removed, and the error has the end of its output. An image that
// was built here makes a pull unnecessary.
func TestContainerThatEndsIsExplained(t *testing.T) {
	for _, i := range []image{postgresImage, rabbitMQImage, kafkaImage} {
		t.Setenv(i.variable, "")
	}
	d := &fakeDaemon{}
	_, err := Start(t.Context(), Options{
		Provider: Docker, Docker: func(context.Context) (Daemon, error) { return d, nil },
		Given: Endpoints{RabbitMQ: "r", Management: "m", Kafka: "k", Python: "p"}, Log: slog.New(slog.DiscardHandler),
	})
	if want := "start PostgreSQL: it stopped while starting\nits log ends:\nno room"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if len(d.ran) != 1 || d.ran[0] != postgresImage.built || len(d.removed) != 1 {
		t.Errorf("ran %q, removed %q", d.ran, d.removed)
	}
	// Tests need the broker's management API.
	d = &fakeDaemon{}
	_, err = Start(t.Context(), Options{
		Provider: Docker, Docker: func(context.Context) (Daemon, error) { return d, nil },
		Given: Endpoints{Postgres: "p", RabbitMQ: "r", Kafka: "k", Python: "p"}, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || len(d.ran) != 1 || d.ran[0] != rabbitMQImage.built {
		t.Errorf("ran %q, %v", d.ran, err)
	}
}
