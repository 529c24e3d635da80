package rpc

import "context"

// StorageOrigins asks the archive's storage, whose RPC is of the same make, for a
// page of the URLs of its origins, and where the next one starts ("" after the
// last).
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

// storageURLs are those of Origins, objects of a model that is not the
// scheduler's and stay as they travel: {swhtype: …, d: {url: …}}.
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
