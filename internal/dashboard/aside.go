package dashboard

import "context"

var asidePage = Page{Path: "/aside", Title: "Rejected", Menu: "Rejected", Template: "aside.html", Fragments: []string{"aside"}, Data: aside}

// aside is what can't be sent or understood.
func aside(ctx context.Context, r *Request) (any, error) { return r.Reads.SetAsides(ctx, 100) }
