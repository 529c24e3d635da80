package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

var noArgs = json.RawMessage("[]")

// Visit is an origin to visit, and its group if groups share the queue.
type Visit struct {
	origins.GrabbedVisit
	Share  ledger.Share
	Policy model.VisitPolicy // policy that picked it; "" if that doesn't matter
}

// Visits makes visits without groups.
func Visits(grabbed []origins.GrabbedVisit) []Visit {
	visits := make([]Visit, len(grabbed))
	for i, v := range grabbed {
		visits[i].GrabbedVisit = v
	}
	return visits
}

// VisitWork makes the message of each visit, in their order: the loader task taskName for the given queue, claimed
// at now. tx is the transaction that marks the origins as scheduled.
func VisitWork(ctx context.Context, tx *db.Tx, queue, taskName string, visits []Visit, now time.Time) ([]ledger.Work, error) {
	origins := Origins(visits)
	listers, err := listersOf(ctx, tx, origins)
	if err != nil {
		return nil, err
	}
	kwargs, err := kwargsOf(origins, listers)
	if err != nil {
		return nil, err
	}
	work := make([]ledger.Work, len(visits))
	for i, v := range visits {
		if v.Hosters == nil {
			v.Hosters = tx.HostersOf(v.Origin, listers[v.Origin.ListerID])
		}
		work[i] = ledger.Work{TaskID: uuid.New(), Queue: queue, Home: queue, TaskName: taskName, Args: noArgs, Kwargs: kwargs[i], Claimed: now, Share: v.Share, Hosters: v.Hosters, Updated: v.Updated, Origin: model.OriginKey{URL: v.Origin.URL, VisitType: v.Origin.VisitType}}
	}
	return work, nil
}

// Origins returns the origins of visits.
func Origins(visits []Visit) []model.ListedOrigin {
	origins := make([]model.ListedOrigin, len(visits))
	for i, v := range visits {
		origins[i] = v.Origin
	}
	return origins
}

// Listers finds listers.
type Listers interface {
	ListersByID(ctx context.Context, ids []uuid.UUID) ([]model.Lister, error)
}

// listersOf returns the listers of origins, by id.
func listersOf(ctx context.Context, from Listers, origins []model.ListedOrigin) (map[uuid.UUID]model.Lister, error) {
	listers := make(map[uuid.UUID]model.Lister)
	for _, o := range origins {
		listers[o.ListerID] = model.Lister{}
	}
	found, err := from.ListersByID(ctx, slices.Collect(maps.Keys(listers)))
	for _, l := range found {
		listers[l.ID] = l
	}
	return listers, err
}

// LoaderKwargs returns the keyword arguments of the loader task of each origin: a JSON object with its keys in the
// Python scheduler's order.
func LoaderKwargs(ctx context.Context, from Listers, origins []model.ListedOrigin) ([]json.RawMessage, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	listers, err := listersOf(ctx, from, origins)
	if err != nil {
		return nil, err
	}
	return kwargsOf(origins, listers)
}

func kwargsOf(origins []model.ListedOrigin, listers map[uuid.UUID]model.Lister) (all []json.RawMessage, err error) {
	all = make([]json.RawMessage, len(origins))
	for i, o := range origins {
		if all[i], err = loaderKwargs(o, listers[o.ListerID]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// loaderKwargs returns the keyword arguments of a loader's task: the origin's URL, its
// lister, and the lister's extra arguments, which take precedence (the Python scheduler's
// create_origin_task). Values keep their form in the database.
func loaderKwargs(o model.ListedOrigin, l model.Lister) (json.RawMessage, error) {
	var kwargs Kwargs
	kwargs.set("url", o.URL)
	kwargs.set("lister_name", l.Name)
	kwargs.set("lister_instance_name", l.InstanceName)
	if l.InstanceName == "" {
		kwargs.set("lister_instance_name", nil)
	}
	if err := kwargs.Merge(o.ExtraLoaderArguments); err != nil {
		return nil, fmt.Errorf("origin %q (%s): extra_loader_arguments: %w", o.URL, o.VisitType, err)
	}
	return kwargs.JSON(), nil
}

// Kwargs are keyword arguments: a JSON object that keeps the order of its keys, as a
// Python dict does.
type Kwargs struct {
	keys   []string
	values []json.RawMessage
}

// set sets a keyword argument to a string or nil.
func (k *Kwargs) set(key string, value any) {
	text, _ := json.Marshal(value)
	k.Set(key, text)
}

// Set sets a keyword argument to a JSON value; an existing one keeps its place.
func (k *Kwargs) Set(key string, value json.RawMessage) {
	if i := slices.Index(k.keys, key); i >= 0 {
		k.values[i] = value
		return
	}
	k.keys = append(k.keys, key)
	k.values = append(k.values, value)
}

// Merge sets the members of a JSON object, in their order.
func (k *Kwargs) Merge(object json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want a JSON object, found %.40q", object)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		k.Set(key.(string), value)
	}
	return nil
}

// Delete removes a keyword argument.
func (k *Kwargs) Delete(key string) {
	if i := slices.Index(k.keys, key); i >= 0 {
		k.keys = slices.Delete(k.keys, i, i+1)
		k.values = slices.Delete(k.values, i, i+1)
	}
}

// JSON returns the object.
func (k *Kwargs) JSON() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range k.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(key)
		b.Write(name)
		b.WriteByte(':')
		b.Write(k.values[i])
	}
	b.WriteByte('}')
	return b.Bytes()
}
