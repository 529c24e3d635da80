// Package dashboard shows the scheduler in a browser, and lets those who may act on it.
//
// It reads the same data as the command line and the RPC server, and never a whole table. A
// [Page] is a path, a function that returns its data as a struct, and a template. That struct
// is also its JSON (Accept: application/json) and the source of live updates. pages.go lists all pages,
// actions.go all forms that change something, changes.go what can be done to tasks and graphs.
//
// # A page and its updates
//
// A page has one address and four forms:
//
//   - HTML: the layout with the page's template in it;
//   - a fragment of that (header X-Fragment);
//   - JSON of its data;
//   - an event stream (Accept: text/event-stream) with the names of the fragments that have changed.
//
// static/live.js opens the stream and fetches those fragments. Without JavaScript a page is the same,
// but isn't updated. Data is computed once for all readers of an address, at most once every
// [refresh], so it must not depend on who reads it. Templates know the user (view.User).
//
// # Permissions
//
// Everyone who reaches the port may read, unless a login is required. To act, a user needs the rights of the
// operation: by a session that was begun with a password, by a bearer token, or by a role that a trusted proxy
// says. Sessions are in the database (sql/sessions). An action is a POST with the form's token (view.CSRF), which
// is of one session; a bearer token needs none, as no browser sends it by itself.
package dashboard
