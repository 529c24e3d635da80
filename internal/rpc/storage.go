package rpc

import "context"

// StorageOrigins asks the archive's storage, whose RPC is of the same make, for a
// page of the URLs of its origins, and where the next one starts ("" after the
// last).
func (c *Client) StorageOrigins(ctx context.Context, pageToken string) (urls []string, next string, err error) {
	value, err := c.call(ctx, "origin/list", 1, func(e encoder) { textField(e, "page_token", pageToken) })
	if err != nil {
		return nil, "", err
	}
	page, err := one[dict](value)
	if err != nil {
		return nil, "", err
	}
	results, _ := page.get("results")
	origins, err := many[dict](results, nil)
	if err != nil {
		return nil, "", err
	}
	for _, origin := range origins {
		url, err := storageURL(origin)
		if err != nil {
			return nil, "", err
		}
		urls = append(urls, url)
	}
	token, _ := page.get("next_page_token")
	next, _ = token.(string)
	return urls, next, nil
}

// storageURL is the URL of an Origin, an object of a model that is not the
// scheduler's and stays as it travels: {swhtype: …, d: {url: …}}.
func storageURL(origin dict) (string, error) {
	for _, e := range origin {
		if key, ok := e.key.([]byte); ok && string(key) == "d" {
			fields, _ := e.value.(dict)
			value, _ := fields.get("url")
			return one[string](value)
		}
	}
	return "", unexpected(origin)
}
