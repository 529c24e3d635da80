package rpc

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
)

func getListers(c *call) error {
	listers, err := c.store.Listers(c)
	if c.args.truth("with_first_visits_to_schedule", false) {
		listers = slices.DeleteFunc(listers, func(l scheduler.Lister) bool {
			return l.LastListingFinishedAt == nil || l.FirstVisitsQueuePrefix == nil || l.FirstVisitsScheduledAt != nil
		})
	}
	return c.listers(listers, err)
}

// listers answers with listers, the oldest first, as the peer mostly does.
func (c *call) listers(listers []scheduler.Lister, err error) error {
	slices.SortStableFunc(listers, func(a, b scheduler.Lister) int { return a.Created.Compare(b.Created) })
	list(c.out, listers, writeLister)
	return err
}

func getListersByID(c *call) error {
	value, _ := c.args.get("lister_ids")
	if !truth(value) {
		return c.listers(nil, nil)
	}
	elements := c.args.list("lister_ids")
	ids := make([]uuid.UUID, len(elements))
	for i, element := range elements {
		ids[i] = c.args.uuidOf("lister_ids", element)
	}
	if c.args.err != nil {
		return c.args.err
	}
	return c.listers(c.store.ListersByID(c, ids))
}

func getLister(c *call) error {
	name, instance := c.args.text("name"), c.args.text("instance_name")
	if c.args.err != nil {
		return c.args.err
	}
	lister, err := c.store.Lister(c, name, instance)
	if errors.Is(err, scheduler.ErrUnknownLister) || c.args.isNone("name") {
		c.out.null()
		return nil
	}
	if err == nil {
		writeLister(c.out, lister)
	}
	return err
}

func getOrCreateLister(c *call) error {
	if c.args.isNone("name") {
		return &exception{class: "AttributeTypeError", module: "attrs_strict._error", args: []any{"name must be <class 'str'> (got a NoneType)"}}
	}
	name, instance, prefix := c.args.text("name"), c.args.text("instance_name"), c.args.optionalText("first_visits_queue_prefix")
	if c.args.err != nil {
		return c.args.err
	}
	lister, err := c.store.GetOrCreateLister(c, name, instance, prefix)
	if err == nil {
		writeLister(c.out, lister)
	}
	return err
}

func updateLister(c *call) error {
	lister := model[scheduler.Lister](c.args, "lister")
	if c.args.err != nil {
		return c.args.err
	}
	lister, err := c.store.UpdateLister(c, lister)
	if err == nil {
		writeLister(c.out, lister)
	}
	return err
}

func getVisitTypes(c *call) error {
	value, _ := c.args.get("lister")
	lister, ok := value.(scheduler.Lister)
	if !ok {
		return attributeError("'%s' object has no attribute 'id'", typeName(value))
	}
	types, err := c.store.ListedVisitTypes(c, lister.ID)
	list(c.out, types, encoder.text)
	return err
}
