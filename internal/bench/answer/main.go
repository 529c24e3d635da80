// Answer is an HTTP server that answers each request with the bytes of its standard input (answer ADDRESS
// CONTENT-TYPE). It is the limit for servers that compute the answer.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", os.Args[2])
			w.Header().Set("Content-Length", strconv.Itoa(len(body))) // otherwise the response is chunked, which the Python client reads as a stream
			_, _ = w.Write(body)
		}))
	}
	fmt.Fprintln(os.Stderr, "answer:", err)
	os.Exit(1)
}
