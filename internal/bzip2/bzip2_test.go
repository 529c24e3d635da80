package bzip2

import (
	"bytes"
	"compress/bzip2"
	"io"
	"strings"
	"testing"

	"swh-scheduler/internal/testenv/seed"
)

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	data, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// What Go's reader reads is what was packed: of no bytes and one, runs of each length, one
// period, all bytes, more than a block, and counts for which codes would be too long.
func TestIsWhatItWas(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	noise := make([]byte, blockSize+1000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	texts := [][]byte{
		nil, {0}, {255}, noise[:300], noise,
		[]byte(strings.Repeat("ab", 500)), []byte(strings.Repeat("abcab", blockSize/100)),
		bytes.Repeat([]byte{7}, 5*blockSize),
		[]byte(`[[], {"url": "https://forge.example/a.git", "lister_name": "gitweb"}, {"callbacks": null}]`),
	}
	for n := range 300 {
		texts = append(texts, append(bytes.Repeat([]byte("x"), n), noise[:n%3]...))
	}
	var skewed []byte // the numbers of Fibonacci, for which Huffman's codes grow longest
	for i, a, b := 0, 1, 1; len(skewed) < blockSize/2; i, a, b = i+1, b, a+b {
		skewed = append(skewed, bytes.Repeat([]byte{byte(i), byte(i + 100)}, a)...)
	}
	random.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	for _, text := range append(texts, skewed) {
		prefix := []byte("before")
		packed := Append(prefix, text)
		if got := unpack(t, bytes.TrimPrefix(packed, prefix)); !bytes.Equal(got, text) {
			t.Errorf("%d bytes, %.40q…, became %d, %.40q…", len(text), text, len(got), got)
		}
	}
}

// Text takes less room.
func TestPacks(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat(`{"url": "https://forge.example/a.git"}, `, 100))
	if packed := Append(nil, text); len(packed) > len(text)/10 {
		t.Errorf("%d bytes became %d", len(text), len(packed))
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte("aaaa, bbbbbbbbb"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got := unpack(t, Append(nil, text)); !bytes.Equal(got, text) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
