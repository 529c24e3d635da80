// Package rpc is the scheduler's HTTP interface: the 34 calls through which listers, the web API, the deposit and
// other Python components use the scheduler. Clients of the Python scheduler work with it unchanged.
//
// # A call
//
// POST /<path> has the arguments as one dict, in msgpack or JSON. The answer is the result of the method of the
// Python scheduler's backend, in the format that the client accepts (JSON unless it prefers msgpack). Types that the
// formats lack have the form {swhtype: name, d: value}: UUIDs, durations, pages, objects of the model, and in JSON
// also dates and bytes. In msgpack the two keys are bytes, so that no dict of user data is taken for a tag.
//
// A request is read into a few Go types (value.go); an answer is written value by
// value into one buffer (encoder.go), never as a tree. An answer always has its
// length: the Python client takes a chunked one for a stream.
//
// # Descriptions
//
// One function describes each class of the model (model.go): it names the fields in order, each with its kind
// (kind.go) and its place in an object of internal/model. Each call is described in the same way (endpoints.go): its
// arguments, its result, and its handler. Reading, checking, writing, Python's error for wrong arguments, the
// client's calls and the site map all use these descriptions (fields.go, endpoint.go).
//
// Graphs of tasks have calls that the Python scheduler lacks (graphs.go).
//
// # Errors
//
// The answer to an error is the Python exception that the Python scheduler would raise (exception.go). It is in
// msgpack whatever the client accepts, with the Python scheduler's status:
//
//   - 400 for StaleData and UnknownPolicy, which clients know, and for wrong arguments of our own calls;
//   - 503 if a retry helps, which clients make by themselves: the database is unavailable, or a deadlock was broken;
//   - 500 for everything else, wrong arguments of the other calls included;
//   - 401, 403, 404, 405, 413 and 415 as HTTP has them.
//
// No answer holds a password or the text of a query; the log has the rest.
//
// # Clients
//
// Each call has the roles that may make it, in its description (roles.go). A server with credentials finds the owner
// of a request's credentials (auth.go) before it reads the body. The single credential has all roles, a client of
// the configuration its own (clients.go). Some roles are limited to some arguments: the role lister to listers by
// their names (scope.go). A client that lacks a role gets 403. Passwords are checked one at a time
// (password_checks.go). The clients are replaced while the server runs (clients_change.go); running calls continue.
//
// # Bounds
//
// The server bounds the size of a request, before and after decompression, its depth and number of values, the time
// to read it and the time of a call. It also bounds the number of calls in progress, and their memory together
// (room.go). Bodies and calls are counted by address (callers.go). Memory is allocated for bytes that were read,
// never for a length that a body declares. An error quotes at most the beginning of a text (exception.go).
//
// # States
//
// [Listen] opens the port; [Server.Run] serves until its context ends, then
// finishes the calls in progress. /healthz answers as long as the process does,
// /readyz only while the database does and the server is not stopping.
//
// # The client
//
// [Client] makes calls, to our server or the Python scheduler's, with the same reader and writers. Like the Python
// scheduler's client it retries calls that the server did not execute (502, 503, a refused connection).
//
// # Where this differs from the Python scheduler
//
//   - Two grabs of ready tasks at once never return the same task.
//   - task/delete_archived deletes the runs that it is given, and those of the given tasks that have no run left; the Python
//     scheduler, by a mistake, uses the numbers of both for both.
//   - An interval that is longer than 292 years is an error.
//   - A page of listed origins ends with all visit types of its last URL, so that
//     none is lost between two pages.
//   - Tracebacks are empty.
package rpc
