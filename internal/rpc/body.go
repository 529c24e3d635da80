package rpc

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// readBody reads a request's body into buf, and decompresses it if it says that
// it is compressed. A body that is larger than maximum, before or after, is
// refused once that shows, whatever it would have become.
func readBody(r *http.Request, buf []byte, maximum int64) ([]byte, error) {
	if r.ContentLength > maximum {
		return nil, errTooLarge()
	}
	body := io.Reader(r.Body)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		if r.ContentLength > 0 {
			buf = slices.Grow(buf, int(min(r.ContentLength, 1<<20)))
		}
	case "gzip", "x-gzip":
		// Its own size is bounded too: zeros between members are skipped.
		reader, err := gzip.NewReader(http.MaxBytesReader(nil, r.Body, maximum))
		if err != nil {
			return nil, bodyError(err)
		}
		defer func() { _ = reader.Close() }()
		body = reader
	default:
		return nil, httpError(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The request's Content-Encoding is not supported; gzip is.")
	}
	body = io.LimitReader(body, maximum+1)
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(4096, len(buf)))
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > maximum:
			return buf, errTooLarge()
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, bodyError(err)
		}
	}
}

func errTooLarge() error {
	return httpError(statusTooLarge, "RequestEntityTooLarge", "The data value transmitted exceeds the capacity limit.")
}

func bodyError(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return errTooLarge()
	}
	return httpError(http.StatusBadRequest, "BadRequest", "The request's body cannot be read: "+err.Error())
}

// compressFrom is from which size on answers are compressed: below it, that
// takes longer than it saves.
const compressFrom = 16 << 10

// takesGzip reads an Accept-Encoding header.
func takesGzip(accept string) bool {
	for item := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return qualityOf(parameters) > 0
		}
	}
	return false
}

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant that there is
	}
	return w
}}

// compress appends src to dst, compressed.
func compress(dst, src []byte) []byte {
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	sink := appender{dst}
	w.Reset(&sink)
	_, err := w.Write(src)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err) // writing to memory does not fail
	}
	return sink.buf
}

// appender is a Writer to a slice.
type appender struct{ buf []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.buf = append(a.buf, p...)
	return len(p), nil
}
