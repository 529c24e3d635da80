// Package dashboard shows the scheduler in a browser, and lets those who may act on it.
//
// It asks what the command line and the RPC server ask, and nothing that reads a whole table. A
// [Page] is a path, a function that returns its data as a struct, and a template. The same struct
// is its JSON (Accept: application/json), its HTML, and what live updates compare. All pages are
// in one list (pages.go), all forms that change something in another (actions.go). What people do to
// tasks and graphs, in steps, is in changes.go.
//
// # A page and its updates
//
// A page is read by GET at one address, in four forms:
//
//   - HTML: the layout, and in it the page's template;
//   - one fragment of that (header X-Fragment), the template of its name;
//   - JSON of its data;
//   - an event stream (Accept: text/event-stream), which names the fragments that have changed.
//
// static/live.js opens the stream and fetches those fragments. Without it the page is the same,
// and stays as it is. Data is computed once for all readers of an address, every [refresh] at
// most, so it must not depend on who reads it; templates know who does (view.User).
//
// # Who may do what
//
// Whoever reaches the port may read, unless a login is required. An action needs a user who may
// act: by bearer token, user name and password, a session that began with one of these, or a role
// that a trusted proxy tells. It is a POST with the token of the form (view.CSRF), except with a
// bearer token, which no browser sends by itself.
package dashboard
