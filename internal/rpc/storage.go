package rpc

import "context"

// StorageOrigins requests a page of the URLs of origins from the archive's storage, whose RPC has the same protocol.
// It also returns where the next page starts ("" after the last).
func (c *Client) StorageOrigins(ctx context.Context, pageToken string) (urls []string, next string, err error) {
	value, err := c.call(ctx, "origin/list", func(f *fields) { required(f, "page_token", text, &pageToken) })
	if err != nil {
		return nil, "", err
	}
	page, err := readResponse(storagePages, value)
	return page.urls, page.next, err
}

type storagePage struct {
	urls []string
	next string
}

var storagePages = dictOf(func(f *fields, p *storagePage) {
	required(f, "results", storageURLs, &p.urls)
	optional(f, "next_page_token", looseText, &p.next)
})

// storageURLs are the URLs of Origins. These are objects of another model than the scheduler's, and stay in their
// form in the message: {swhtype: …, d: {url: …}}.
var storageURLs = listing(&kind[string]{read: func(f *fields, value any) string {
	origin, _ := value.(dict)
	for _, e := range origin {
		if key, ok := e.key.([]byte); ok && string(key) == "d" {
			fields, _ := e.value.(dict)
			url, _ := fields.get("url")
			return text.read(f, url)
		}
	}
	f.wrong(value)
	return ""
}})
