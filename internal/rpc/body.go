package rpc

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// readBody reads a request's body into buf, and decompresses it if it is declared
// compressed. A body that is larger than maximum, before or after, is refused as
// soon as that shows. A large one waits for room, and then has bodyTimeout from large on.
func readBody(r *http.Request, buf []byte, maximum int64, room *share, large func()) (_ []byte, err error) {
	if r.ContentLength > maximum {
		return nil, errTooLarge()
	}
	size := maximum // at most
	body := io.Reader(r.Body)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		if r.ContentLength >= 0 {
			size = r.ContentLength
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
	limited := io.LimitReader(body, maximum+1)
	read := bytes.NewBuffer(slices.Grow(buf, int(min(size, smallBody)+bytes.MinRead)))
	if _, err = read.ReadFrom(io.LimitReader(limited, smallBody)); err == nil && read.Len() == smallBody && size > smallBody {
		if err := room.reserve(r.Context(), room.bodies, size); err != nil {
			return nil, err
		}
		room.body = size
		large()
		if r.ContentLength == size {
			read.Grow(int(size) - smallBody + bytes.MinRead)
		}
		_, err = read.ReadFrom(limited)
	}
	switch {
	case int64(read.Len()) > maximum:
		return nil, errTooLarge()
	case err != nil:
		return nil, bodyError(err)
	}
	if spare := room.body - int64(read.Len()); spare > 0 {
		room.bodies.Release(spare)
		room.body -= spare
	}
	return read.Bytes(), nil
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
