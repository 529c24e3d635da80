package listener

import (
	"testing"

	"swh-scheduler/celery"
)

// The listener reads some bodies that the Python scheduler drops, if their meaning is clear. Like it, it reads JSON of
// any content type. It refuses UTF-16 and UTF-32, which the Python scheduler reads.
func TestBodiesThatThePeerDrops(t *testing.T) {
	t.Parallel()
	const json, msgpack = "application/json", "application/x-msgpack"
	for name, c := range map[string]struct {
		body, contentType string
		starts            int
	}{
		"plain":    {`{"type":"task-started","uuid":"u"}`, json, 1},
		"a BOM":    {"\ufeff" + `{"type":"task-started","uuid":"u"}`, json, 1},
		"no UTF-8": {"{\"type\":\"task-started\",\"uuid\":\"u\",\"hostname\":\"\xff\"}", json, 1},
		"msgpack":  {"\x82\xa4type\xactask-started\xa4uuid\xa1u", msgpack, 1},
		"bytes":    {`{"type":"task-started","uuid":"u"}`, "application/data", 1},
		"octets":   {`[{"type":"task-started","uuid":"u"}]`, "application/octet-stream", 1},
		"pickle":   {"\x80\x04}\x94.", "application/x-python-serialize", 0},
		"UTF-16":   {"\xff\xfe{\x00}\x00", json, 0},
		"UTF-32":   {"\xff\xfe\x00\x00{\x00\x00\x00}\x00\x00\x00", json, 0},
	} {
		l := newTestListener(t, nil, &nothing{})
		b := newBatch(firstTurn())
		l.read(b, celery.Delivery{Body: []byte(c.body), ContentType: c.contentType})
		if len(b.outcomes) != c.starts {
			t.Errorf("%s: %d outcomes, want %d", name, len(b.outcomes), c.starts)
		}
	}
}
