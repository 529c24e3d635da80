package rpc

import (
	"context"
	"errors"
	"fmt"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func recordListedOrigins(c *call) error {
	origins := models[scheduler.ListedOrigin](c.args, "listed_origins")
	keepLastSeen := !c.args.truth("update_last_seen", true)
	switch value, _ := c.args.get("update_last_seen"); value.(type) {
	case []any, dict: // the peer looks it up in a dict
		c.args.fail(typeError("unhashable type: '%s'", typeName(value)))
	}
	if c.args.err != nil {
		return c.args.err
	}
	if keepLastSeen {
		for i := range origins {
			if origins[i].LastSeen.IsZero() {
				return &exception{class: "NotNullViolation", module: "psycopg.errors",
					args: []any{`null value in column "last_seen" of relation "listed_origins" violates not-null constraint`}}
			}
		}
	}
	origins, err := c.store.RecordListedOrigins(c, origins, keepLastSeen)
	list(c.out, origins, writeListedOrigin)
	return err
}

func getListedOrigins(c *call) error {
	const defaultLimit = 1000
	limit := c.args.integer("limit", defaultLimit)
	enabled := true
	f := sql.ListedOriginFilter{ListerID: c.args.uuid("lister_id"), Enabled: &enabled, Limit: int(limit)}
	if url := c.args.optionalText("url"); url != nil {
		f.URLs = []string{*url}
	} else if urls, _ := c.args.get("urls"); truth(urls) {
		for _, url := range c.args.list("urls") {
			f.URLs = append(f.URLs, c.args.textOf("urls", url))
		}
	}
	if value, given := c.args.get("enabled"); given {
		if value == nil {
			f.Enabled = nil
		} else if b, ok := value.(bool); ok {
			enabled = b
		} else {
			c.args.wrong("enabled", "bool", value)
		}
	}
	if !c.args.isNone("page_token") {
		token := c.args.list("page_token")
		if len(token) < 2 {
			return newException("IndexError", "list index out of range")
		}
		f.After = &sql.ListedOriginToken{ListerID: c.args.uuidOf("page_token", token[0]), URL: c.args.textOf("page_token", token[1])}
	}
	switch {
	case c.args.err != nil:
		return c.args.err
	case limit < 0:
		return &exception{class: "InvalidRowCountInLimitClause", module: "psycopg.errors", args: []any{"LIMIT must not be negative"}}
	case limit == 0: // the peer looks for the last of no origins
		return newException("IndexError", "list index out of range")
	}
	origins, next, err := c.store.ListedOrigins(c, f)
	if err != nil {
		return err
	}
	c.out.openTag("paged_result")
	c.out.openDict(3)
	c.out.key("results")
	list(c.out, origins, writeListedOrigin)
	c.out.key("next_page_token")
	optional(c.out, next, func(t sql.ListedOriginToken) {
		list(c.out, []string{t.ListerID.String(), t.URL}, encoder.text)
	})
	c.out.key("total_results")
	c.out.null()
	c.out.closeDict()
	c.out.closeTag()
	return nil
}

func grabNextVisits(c *call) error {
	policy, _ := c.args.get("policy")
	name, ok := policy.(string)
	if !ok {
		return unknownPolicy(policy)
	}
	f := scheduler.VisitFilter{
		VisitType: c.args.text("visit_type"), Policy: scheduler.VisitPolicy(name),
		Disabled: !c.args.truth("enabled", true),
		ListerID: c.args.uuid("lister_uuid"), ListerName: c.args.text("lister_name"), ListerInstanceName: c.args.text("lister_instance_name"),
		Cooldowns: scheduler.Cooldowns{
			Absolute:  c.args.cooldown("absolute_cooldown", scheduler.DefaultCooldowns.Absolute),
			Scheduled: c.args.cooldown("scheduled_cooldown", scheduler.DefaultCooldowns.Scheduled),
			Failed:    c.args.cooldown("failed_cooldown", scheduler.DefaultCooldowns.Failed),
			NotFound:  c.args.cooldown("not_found_cooldown", scheduler.DefaultCooldowns.NotFound),
		},
		TableSample: c.args.float("tablesample"),
	}
	at, dryRun := c.time("timestamp"), c.args.truth("dry_run", false)
	count, all := c.args.limit("count")
	if all {
		c.args.wrong("count", "int", nil)
	}
	// None of a lister but its instance: the peer asserts that there is both.
	if f.Policy == scheduler.FirstVisitsAfterListing && c.args.isNone("lister_uuid") &&
		(c.args.isNone("lister_name") || c.args.isNone("lister_instance_name")) {
		c.args.fail(assertionError("first_visits_after_listing policy requires lister info "))
	}
	if c.args.err != nil {
		return c.args.err
	}
	var origins []scheduler.ListedOrigin
	err := c.store.InTx(c, func(ctx context.Context, tx *sql.Tx) (err error) {
		origins, err = tx.GrabNextVisits(ctx, f, at, count, dryRun)
		return err
	})
	switch {
	case errors.Is(err, scheduler.ErrUnknownPolicy):
		return unknownPolicy(name)
	case errors.Is(err, scheduler.ErrUnknownLister):
		return assertionError("Lister with name %s and instance %s not found !", f.ListerName, f.ListerInstanceName)
	}
	list(c.out, origins, writeListedOrigin)
	return err
}

func unknownPolicy(policy any) error {
	if policy == nil {
		policy = "None"
	}
	return schedulerException("UnknownPolicy", fmt.Sprintf("Unknown scheduling policy %v", policy))
}
