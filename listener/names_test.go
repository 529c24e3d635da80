package listener

import (
	"fmt"
	"strings"
	"testing"
)

// A name that no worker can have, of megabytes, isn't remembered.
func TestLongNamesOfWorkersAreNotKept(t *testing.T) {
	t.Parallel()
	l := newTestListener(t, nil, &nothing{})
	long := strings.Repeat("x", 1<<20)
	for i := range 20 {
		b := newBatch(firstTurn())
		l.read(b, delivery(fmt.Appendf(nil, `{"type":"worker-online","hostname":"%d%s"}`, i, long)))
	}
	b := newBatch(firstTurn())
	l.read(b, delivery([]byte(`{"type":"worker-online","hostname":"worker@host"}`)))
	kept := 0
	for name := range l.Workers() {
		kept += len(name)
	}
	if kept != len("worker@host") {
		t.Errorf("the names of workers take %d bytes", kept)
	}
}
