package celery_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/google/uuid"

	"swh-scheduler/celery"
)

func ExamplePublisher_Publish() {
	ctx := context.Background()
	b, err := celery.ParseBroker("amqp://guest:guest@localhost//", false, nil)
	if err != nil {
		log.Fatal(err)
	}
	p := celery.NewPublisher(b, celery.PublisherOptions{})
	defer func() { _ = p.Close() }()
	if err := p.DeclareQueue(ctx, "images"); err != nil {
		log.Fatal(err)
	}
	results := p.Publish(ctx, []celery.TaskMessage{{
		ID: uuid.NewString(), Name: "images.resize", Queue: "images",
		Args: []byte(`["cat.png"]`), Kwargs: []byte(`{"width": 100}`),
	}})
	switch err := results[0]; {
	case err == nil:
		fmt.Println("the broker has it")
	case celery.IsPermanent(err), errors.Is(err, celery.ErrNotSent):
		fmt.Println("the broker doesn't have it:", err)
	case errors.Is(err, celery.ErrUnconfirmed):
		fmt.Println("the broker may have it:", err)
	}
}
