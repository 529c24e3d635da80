package journal

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"swh-scheduler/internal/model"
)

// All visits of an origin, whatever their type, are in one part, in their order and
// with the records that they are from. So no two transactions of a batch count
// visits of the same origin, each without those of the other.
func TestPartsKeepOriginsTogether(t *testing.T) {
	t.Parallel()
	const origins, rounds = 301, 10
	b := &batch{}
	for day := range rounds {
		for n := range origins {
			b.visits = append(b.visits, Visit{
				OriginKey: model.OriginKey{URL: fmt.Sprint("https://example.org/", n), VisitType: []string{"git", "hg"}[day%2]},
				Date:      at(day),
			})
			b.from = append(b.from, &kgo.Record{Offset: int64(day*origins + n)})
		}
	}
	parts := b.parts()
	if len(parts) != maxParts {
		t.Fatalf("%d parts, want %d", len(parts), maxParts)
	}
	partOf, next := make(map[string]int), make(map[string]int)
	for i, l := range parts {
		for k, v := range l.visits {
			if part, known := partOf[v.URL]; known && part != i {
				t.Fatalf("%s is in parts %d and %d", v.URL, part, i)
			}
			partOf[v.URL] = i
			if !v.Date.Equal(at(next[v.URL])) || b.visits[l.from[k].Offset].URL != v.URL {
				t.Fatalf("%s: visit of %s out of order, or not from record %d", v.URL, v.Date, l.from[k].Offset)
			}
			next[v.URL]++
		}
	}
	for url, n := range next {
		if n != rounds {
			t.Errorf("%s: %d visits, want %d", url, n, rounds)
		}
	}
}

// A batch that is given up is read again from its first record, in each partition.
func TestRewindGoesToTheFirstRecords(t *testing.T) {
	t.Parallel()
	got := firstOffsets([]*kgo.Record{{Partition: 1, Offset: 7}, {Partition: 0, Offset: 3}, {Partition: 1, Offset: 8}, {Partition: 0, Offset: 5}})
	want := map[int32]kgo.EpochOffset{0: {Epoch: -1, Offset: 3}, 1: {Epoch: -1, Offset: 7}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The end is where all partitions have been read to their ends, if there are any.
func TestAtEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		partitions map[int32]*progress
		want       bool
	}{
		"no partitions": {nil, false},
		"one at work":   {map[int32]*progress{0: {}}, false},
		"one of two":    {map[int32]*progress{0: {eof: true}, 1: {}}, false},
		"all":           {map[int32]*progress{0: {eof: true}, 1: {eof: true}}, true},
	} {
		if got := (&member{partitions: tc.partitions}).atEnd(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
