// Package bulk has loops over many rows: batches that are halved after time-outs ([BatchSize]), the
// bisection for an item that PostgreSQL refuses ([Bisect]), and walks over whole tables that any process
// continues ([Walk]). Of all tables it uses only scheduler_go.walks.
package bulk
