package celery

import (
	"bytes"
	"compress/zlib"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Compressions are the content types of compressed messages, by kombu's names. Kombu also has bzip2, which no
// maintained library for Go writes.
var Compressions = map[string]string{
	"gzip": contentTypeZlib, "zlib": contentTypeZlib, contentTypeZlib: contentTypeZlib,
	"zstd": contentTypeZstd, "zstandard": contentTypeZstd, contentTypeZstd: contentTypeZstd,
	"lzma": contentTypeXZ, "xz": contentTypeXZ, contentTypeXZ: contentTypeXZ,
	"brotli": contentTypeBrotli, contentTypeBrotli: contentTypeBrotli,
}

const (
	contentTypeZlib   = "application/x-gzip" // kombu's name for zlib's format
	contentTypeZstd   = "application/zstd"
	contentTypeXZ     = "application/x-lzma" // kombu's name for xz's format
	contentTypeBrotli = "application/x-brotli"
)

// compressor compresses bodies. It reuses its buffers.
type compressor struct {
	out    bytes.Buffer
	zlib   *zlib.Writer
	brotli *matchfinder.Writer
	packed []byte
}

// zstdEncoder is shared, as an encoder takes some megabytes; it is safe for concurrent use. A frame of a single
// segment has its length in the header, without which some of Python's libraries don't read it.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
})

// compress compresses a body for a content type of Compressions. The result is valid until the next call.
func (c *compressor) compress(contentType string, body []byte) ([]byte, error) {
	if contentType == contentTypeZstd {
		e, err := zstdEncoder()
		if err != nil {
			return nil, err
		}
		c.packed = e.EncodeAll(body, c.packed[:0])
		return c.packed, nil
	}
	c.out.Reset()
	w, err := c.writer(contentType)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}

// writer returns a writer that compresses into out.
func (c *compressor) writer(contentType string) (io.WriteCloser, error) {
	switch {
	case contentType == contentTypeXZ:
		return xz.WriterConfig{DictCap: 64 << 10}.NewWriter(&c.out) // its writer has no Reset
	case contentType == contentTypeBrotli && c.brotli == nil:
		// As brotli.NewWriterV2 of level 3; that has all levels in the program, and brotli.NewWriter a dictionary of 250 kB.
		c.brotli = &matchfinder.Writer{Dest: &c.out, MatchFinder: &matchfinder.ZM{MaxDistance: 1 << 20}, Encoder: &brotli.Encoder{}, BlockSize: 1 << 16}
		return c.brotli, nil
	case contentType == contentTypeBrotli:
		c.brotli.Reset(&c.out)
		return c.brotli, nil
	case c.zlib == nil:
		c.zlib = zlib.NewWriter(&c.out)
	default:
		c.zlib.Reset(&c.out)
	}
	return c.zlib, nil
}
