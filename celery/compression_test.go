package celery_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"swh-scheduler/celery"
)

// Compressions has all of kombu's names except bzip2. kombu reads bodies that several messages compress in turn, shorter
// and longer than a block.
func TestCompressions(t *testing.T) {
	t.Parallel()
	kombu := startPeer(t, "memory://")
	var theirs map[string]string
	if e := kombu.ask(map[string]any{"operation": "compressions"}, &theirs); e != "" {
		t.Fatal(e)
	}
	for _, name := range []string{"bzip2", "bzip", "application/x-bz2"} { // Compressions has no bzip2
		delete(theirs, name)
	}
	if diff := cmp.Diff(theirs, celery.Compressions); diff != "" {
		t.Errorf("compressions (-kombu +ours):\n%s", diff)
	}
	plain := celery.EncodeAs(celery.SendSettings{})
	for name, contentType := range celery.Compressions {
		packed := celery.EncodeAs(celery.SendSettings{Form: celery.Form{Compression: contentType}})
		for _, times := range []int{1, 2, 20_000, 0} {
			message := celery.TaskMessage{ID: "id", Name: "t", Queue: "q", Args: []byte(`["` + strings.Repeat(`a, é`, times) + `", 1]`)}
			want, err := plain(&message)
			if err != nil {
				t.Fatal(err)
			}
			got, err := packed(&message)
			if err != nil || got.Headers["compression"] != contentType {
				t.Fatal(name, got.Headers, err)
			}
			var body string
			if e := kombu.ask(map[string]any{"operation": "decompress", "body": got.Body, "content_type": name}, &body); e != "" || body != string(want.Body) {
				t.Errorf("%s, %d bytes: kombu reads %.100q…, %s; want %.100q…", name, len(want.Body), body, e, want.Body)
			}
		}
	}
}

// A body in zstd contains its uncompressed length: the library of kombu before 5.6 needs it.
func TestZstdHasTheLength(t *testing.T) {
	t.Parallel()
	message := celery.TaskMessage{ID: "id", Name: "t", Queue: "q", Args: []byte(`["a", 1]`)}
	plain, err := celery.EncodeAs(celery.SendSettings{})(&message)
	if err != nil {
		t.Fatal(err)
	}
	got, err := celery.EncodeAs(celery.SendSettings{Form: celery.Form{Compression: celery.Compressions["zstandard"]}})(&message)
	if err != nil {
		t.Fatal(err)
	}
	var header zstd.Header
	if err := header.Decode(got.Body); err != nil || !header.HasFCS || header.FrameContentSize != uint64(len(plain.Body)) {
		t.Errorf("the frame's header: %+v, %v; want %d bytes", header, err, len(plain.Body))
	}
}
