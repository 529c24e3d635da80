package dashboard

import "context"

var asidePage = Page{Path: "/aside", Title: "Rejected", Menu: "Rejected", Template: "aside.html", Fragments: []string{"aside"}, Data: aside}

// aside returns the set-aside rows of each kind.
func aside(ctx context.Context, r *Request) (any, error) { return r.Reads.SetAsides(ctx, 100) }
