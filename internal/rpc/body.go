package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// readBody reads a request's body into buf, and decompresses it if its header says so. It refuses a body that is
// larger than maximum, before or after, as soon as it has read that much. A large body waits for room.
func readBody(r *http.Request, buf []byte, maximum int64, room *share) (_ []byte, err error) {
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
		// Its own size is bounded too: the reader skips zeros between members.
		reader, err := gzip.NewReader(http.MaxBytesReader(nil, r.Body, maximum))
		if err != nil {
			return nil, bodyError(err)
		}
		defer func() { _ = reader.Close() }()
		body = reader
	default:
		return nil, httpError(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The request's Content-Encoding is not supported; gzip is.")
	}
	ended := false
	if buf, ended, err = readUpTo(body, buf, smallBody); err == nil && !ended && size > smallBody {
		if err := room.enlarge(r.Context(), size); err != nil {
			return nil, err
		}
		buf, ended, err = readUpTo(body, buf, size)
	}
	if err == nil && !ended {
		_, ended, err = readUpTo(body, make([]byte, 0, 1), 1)
	}
	switch {
	case err != nil:
		return nil, bodyError(err)
	case !ended:
		return nil, errTooLarge()
	}
	room.shrink(int64(len(buf)))
	return buf, nil
}

// readUpTo appends to buf until it has most bytes, or the reader has ended. It allocates at most twice the bytes
// that it has read.
func readUpTo(r io.Reader, buf []byte, most int64) (_ []byte, ended bool, err error) {
	for int64(len(buf)) < most {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(most, int64(max(2*cap(buf), 4096)))), buf...)
		}
		n, err := r.Read(buf[len(buf):min(int64(cap(buf)), most)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, true, nil
		}
		if err != nil {
			return buf, false, err
		}
	}
	return buf, false, nil
}

func errTooLarge() error {
	return httpError(statusTooLarge, "RequestEntityTooLarge", "The data value transmitted exceeds the capacity limit.")
}

func bodyError(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return errTooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return httpError(http.StatusRequestTimeout, "RequestTimeout", "The request's body came too slowly.")
	}
	return httpError(http.StatusBadRequest, "BadRequest", "The request's body cannot be read: "+brief(err.Error()))
}
