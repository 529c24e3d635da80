package main

import (
	"bytes"
	"compress/gzip"
	"os"
)

// compress replaces a file by path.gz, without its name and time.
func compress(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(path+".gz", packed.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}
