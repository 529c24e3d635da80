// Package stmt has helpers for statements: it converts Go values to parameters and rows to Go values, and
// runs several statements in order. It uses no table.
package stmt
