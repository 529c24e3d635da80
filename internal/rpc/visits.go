package rpc

import (
	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func upsertVisitStats(c *call) error {
	stats := models[scheduler.VisitStats](c.args, "origin_visit_stats")
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.UpsertVisitStats(c, stats)
}

func getVisitStats(c *call) error {
	value, _ := c.args.get("ids")
	if !truth(value) {
		list(c.out, nil, writeVisitStats)
		return nil
	}
	elements := c.args.list("ids")
	keys := make([]scheduler.OriginKey, len(elements))
	for i, element := range elements {
		pair, ok := element.([]any)
		if !ok || len(pair) != 2 {
			return &exception{class: "ProgrammingError", module: "psycopg", args: []any{"each of the ids must be a URL and a visit type"}}
		}
		keys[i] = scheduler.OriginKey{URL: c.args.textOf("ids", pair[0]), VisitType: c.args.textOf("ids", pair[1])}
	}
	if c.args.err != nil {
		return c.args.err
	}
	stats, err := c.store.VisitStats(c, keys)
	list(c.out, stats, writeVisitStats)
	return err
}

func getQueuePositions(c *call) error {
	positions, err := c.store.VisitQueuePositions(c)
	c.out.openDict(len(positions))
	for _, p := range positions {
		integerField(c.out, p.VisitType, p.Position)
	}
	c.out.closeDict()
	return err
}

func setQueuePosition(c *call) error {
	p := sql.VisitQueuePosition{VisitType: c.args.text("visit_type"), Position: c.args.integer("position", 0)}
	if c.args.isNone("visit_type") {
		c.args.wrong("visit_type", "str", nil)
	}
	if c.args.err != nil {
		return c.args.err
	}
	c.out.null()
	return c.store.SetVisitQueuePosition(c, p)
}

func updateMetrics(c *call) error {
	var lister uuid.NullUUID
	if value, _ := c.args.get("lister_id"); value != nil {
		lister = uuid.NullUUID{UUID: c.args.uuidOf("lister_id", value), Valid: true}
	}
	at := c.args.time("timestamp")
	if c.args.err != nil {
		return c.args.err
	}
	metrics, err := c.store.UpdateMetrics(c, lister, at)
	list(c.out, metrics, writeMetrics)
	return err
}

func getMetrics(c *call) error {
	lister, visitType := c.args.uuid("lister_id"), c.args.text("visit_type")
	if c.args.err != nil {
		return c.args.err
	}
	metrics, err := c.store.Metrics(c, lister, visitType)
	list(c.out, metrics, writeMetrics)
	return err
}
