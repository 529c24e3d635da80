package settle

import (
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// The history of lanes has the wait of a message, its end, and whether its runtime would have fitted the lane
// before.
func TestRecordsOfLanes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		below, took float64
		quick       bool
	}{
		"quicker than the lane before":  {60, 59, true},
		"as quick as its limit":         {60, 60, true},
		"slower":                        {60, 61, false},
		"not predicted to outlast one":  {0, 59, false},
		"neither predicted nor running": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := uuid.New()
			work := ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Lane: ledger.WorkLane{Set: "load-git", Name: "slow", Below: c.below, SoftLimit: time.Hour}}
			began := begin.Add(40 * time.Second)
			over := began.Add(time.Duration(c.took * float64(time.Second)))
			got := decide(gather([]Outcome{
				{BackendID: id.String(), Received: began, Start: &Start{EventTime: model.UnixSeconds(began)}},
				{BackendID: id.String(), Received: over, Runtime: new(over.Sub(began))},
				{BackendID: id.String(), Received: over, End: &End{Status: model.RunEventful, EventTime: model.UnixSeconds(over)}},
			}), nil, []ledger.LockedWork{work}, uuid.New)

			want := make(ledger.LaneRecords)
			want.Add("load-git", "slow", ledger.LaneWait, lanes.Bucket(40), began, 1)
			want.Add("load-git", "slow", ledger.LaneEnded, 0, over, 1)
			if c.quick {
				want.Add("load-git", "slow", ledger.LaneQuickSentSlow, 0, over, 1)
			}
			if !maps.Equal(got.Records, want) {
				t.Errorf("got %v, want %v", got.Records, want)
			}
		})
	}
}

// A message counts once for its lister, and once among those of all listers, also if it has no lister.
func TestMessagesCountOnce(t *testing.T) {
	t.Parallel()
	for lister, want := range map[string]map[string]float64{"": {"": 1}, "gitlab": {"": 1, "gitlab": 1}} {
		id := uuid.New()
		work := ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Lane: ledger.WorkLane{Set: "load-git", Name: "slow", SoftLimit: time.Hour, LaneFeatures: ledger.LaneFeatures{Lister: lister}}}
		counts := make(map[string]float64)
		for of, n := range decide(gather([]Outcome{{BackendID: id.String(), Received: begin, Runtime: new(time.Second)}}), nil, []ledger.LockedWork{work}, uuid.New).Counts {
			counts[of.Lister] += n
		}
		if !maps.Equal(counts, want) {
			t.Errorf("lister %q: counted %v, want %v", lister, counts, want)
		}
	}
}

// The records of a batch have the time of its last end, in every order of the ends.
func TestHeardIsTheLastEnd(t *testing.T) {
	t.Parallel()
	var outcomes []Outcome
	var work []ledger.LockedWork
	for _, second := range []int{2, 3, 1} {
		id := uuid.New()
		at := begin.Add(time.Duration(second) * time.Second)
		outcomes = append(outcomes, Outcome{BackendID: id.String(), Received: at, Runtime: new(time.Second)})
		work = append(work, ledger.LockedWork{TaskID: id, Home: "q", Claimed: begin, Lane: ledger.WorkLane{Set: "load-git", Name: "slow", SoftLimit: time.Hour}})
	}
	if got, want := decide(gather(outcomes), nil, work, uuid.New).LastEnd, begin.Add(3*time.Second); !got.Equal(want) {
		t.Errorf("as of %v, want %v", got, want)
	}
}
