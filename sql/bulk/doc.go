// Package bulk has the loops over many rows: batches that are halved when PostgreSQL can't take them in
// time ([BatchSize]), the search for the one item that PostgreSQL refuses ([Bisect]), and walks over whole
// tables, which any process continues ([Walk]). It knows no table but scheduler_go.walks.
package bulk
