package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/origins"
)

type recordArguments struct {
	origins        []model.ListedOrigin
	updateLastSeen bool
}

// hashableTruth is the truth of what the Python scheduler looks up in a dict.
var hashableTruth = &kind[bool]{read: func(f *fields, value any) bool {
	switch value.(type) {
	case []any, dict:
		f.fail(typeError("unhashable type: '%s'", typeName(value)))
	}
	return truth(value)
}, write: boolean.write}

func recordOrigins(c *call, a recordArguments) ([]model.ListedOrigin, error) {
	for i := range a.origins {
		if !a.updateLastSeen && a.origins[i].LastSeen.IsZero() {
			return nil, psycopgError("NotNullViolation", `null value in column "last_seen" of relation "listed_origins" violates not-null constraint`)
		}
	}
	return c.store.RecordListedOrigins(c, a.origins, !a.updateLastSeen)
}

// defaultPage is the default number of origins in a page.
const defaultPage = 1000

// originPage is a page of origins, and where the next one starts.
type originPage struct {
	origins []model.ListedOrigin
	next    *origins.ListedOriginToken
}

var originPageDicts = dictOf(func(f *fields, p *originPage) {
	required(f, "results", manyListedOrigins, &p.origins)
	optional(f, "next_page_token", originTokens, &p.next)
	optional(f, "total_results", null, new(none))
})

var originPages = &kind[originPage]{read: originPageDicts.read, write: func(f *fields, p *originPage) {
	f.out.openTag("paged_result")
	originPageDicts.write(f, p)
	f.out.closeTag()
}}

var originTokens = nullable(&kind[origins.ListedOriginToken]{text.pythonType, func(f *fields, value any) (t origins.ListedOriginToken) {
	pair, ok := value.([]any)
	switch {
	case !ok:
		f.refuse(value, typeError("'%s' object is not iterable", typeName(value)))
	case len(pair) < 2:
		f.refuse(value, newException("IndexError", "list index out of range"))
	default:
		t.URL = text.read(f, pair[1])
		f.kind = looseID.pythonType
		t.ListerID = looseID.read(f, pair[0])
	}
	return t
}, func(f *fields, t *origins.ListedOriginToken) { texts.write(f, &[]string{t.ListerID.String(), t.URL}) }})

func listOrigins(c *call, f origins.ListedOriginFilter) (p originPage, err error) {
	switch {
	case f.Limit < 0:
		return p, errNegativeLimit()
	case f.Limit == 0: // the Python scheduler looks for the last of no origins
		return p, newException("IndexError", "list index out of range")
	}
	f.Limit = c.atMost(f.Limit)
	p.origins, p.next, err = c.store.ListedOrigins(c, f)
	p.origins, err = fewOf(c, "limit", p.origins, err)
	return p, err
}

type grabArguments struct {
	model.VisitFilter
	count     *int // nil: all
	timestamp time.Time
	dryRun    bool
	noLister  bool // neither its identifier is given nor both its names
}

func visitGrab(f *fields, a *grabArguments) {
	enabled := !a.Disabled
	required(f, "visit_type", looseText, &a.VisitType)
	required(f, "count", nullable(limit), &a.count)
	required(f, "policy", policies, &a.Policy)
	optional(f, "enabled", truthful, &enabled, true)
	optional(f, "lister_uuid", nullID(idText, isFalse), &a.ListerID)
	optional(f, "lister_name", looseTextOrNone, &a.ListerName)
	optional(f, "lister_instance_name", looseTextOrNone, &a.ListerInstanceName)
	optional(f, "timestamp", looseMoment, &a.timestamp)
	optional(f, "absolute_cooldown", cooldown, &a.Cooldowns.Absolute, model.DefaultCooldowns.Absolute)
	optional(f, "scheduled_cooldown", cooldown, &a.Cooldowns.Scheduled, model.DefaultCooldowns.Scheduled)
	optional(f, "failed_cooldown", cooldown, &a.Cooldowns.Failed, model.DefaultCooldowns.Failed)
	optional(f, "not_found_cooldown", cooldown, &a.Cooldowns.NotFound, model.DefaultCooldowns.NotFound)
	optional(f, "tablesample", looseFloat, &a.TableSample)
	optional(f, "dry_run", truthful, &a.dryRun)
	a.Disabled = !enabled
	a.noLister = f.isNone("lister_uuid") && (f.isNone("lister_name") || f.isNone("lister_instance_name"))
}

var looseTextOrNone = orNone(looseText)

// policies are names of policies. For another value it returns the Python scheduler's first error.
var policies = &kind[model.VisitPolicy]{read: func(f *fields, value any) model.VisitPolicy {
	name, ok := value.(string)
	if !ok || len(name) > maxForm {
		f.err = unknownPolicy(value)
		return ""
	}
	return model.VisitPolicy(name)
}, write: textAs[model.VisitPolicy]().write}

func grabVisits(c *call, a grabArguments) (origins []model.ListedOrigin, err error) {
	if a.Policy == model.FirstVisitsAfterListing && a.noLister {
		return nil, assertionError("first_visits_after_listing policy requires lister info ")
	}
	if a.count == nil {
		a.count = new(all)
	}
	err = c.store.InTx(c, func(ctx context.Context, tx *db.Tx) (err error) {
		origins, err = tx.GrabNextVisits(ctx, a.VisitFilter, c.at(a.timestamp), c.atMost(*a.count), a.dryRun)
		origins, err = fewOf(c, "count", origins, err)
		for i := range origins { // before they are marked for good
			if err == nil {
				err = unreadableOrigin(&origins[i])
			}
		}
		return err
	})
	switch {
	case errors.Is(err, model.ErrUnknownPolicy):
		return nil, unknownPolicy(string(a.Policy))
	case errors.Is(err, model.ErrUnknownLister):
		return nil, assertionError("Lister with name %s and instance %s not found !", a.ListerName, a.ListerInstanceName)
	}
	return origins, err
}

// unreadableOrigin returns an error if a client can't read an origin's dates.
func unreadableOrigin(o *model.ListedOrigin) error {
	dates := []time.Time{o.FirstSeen, o.LastSeen}
	if o.LastUpdate != nil {
		dates = append(dates, *o.LastUpdate)
	}
	for _, date := range dates {
		if err := outOfRange("a date of the origin "+brief(o.URL), date); err != nil {
			return err
		}
	}
	return nil
}

func unknownPolicy(policy any) error {
	if policy == nil {
		policy = "None"
	}
	return schedulerException("UnknownPolicy", fmt.Sprintf("Unknown scheduling policy %v", quotable(policy)))
}

// originKeys are pairs of a URL and a visit type.
var originKeys = &kind[model.OriginKey]{text.pythonType, func(f *fields, value any) model.OriginKey {
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		f.fail(&exception{class: "ProgrammingError", module: "psycopg", args: []string{"each of the ids must be a URL and a visit type"}})
		return model.OriginKey{}
	}
	return model.OriginKey{URL: text.read(f, pair[0]), VisitType: text.read(f, pair[1])}
}, func(f *fields, k *model.OriginKey) { texts.write(f, &[]string{k.URL, k.VisitType}) }}

// queuePositions are a dict by visit type.
var queuePositions = &kind[[]origins.VisitQueuePosition]{read: func(f *fields, value any) (positions []origins.VisitQueuePosition) {
	d, ok := value.(dict)
	if !ok {
		f.fail(unexpected(value))
	}
	for _, e := range d {
		positions = append(positions, origins.VisitQueuePosition{VisitType: text.read(f, e.key), Position: looseInteger.read(f, e.value)})
	}
	return positions
}, write: func(f *fields, positions *[]origins.VisitQueuePosition) {
	f.out.openDict()
	for i := range *positions {
		p := &(*positions)[i]
		write(f, p.VisitType, looseInteger, &p.Position)
	}
	f.out.closeDict()
}}
