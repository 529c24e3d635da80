// Package stmt has what statements need around the generated ones: their parameters from Go values, their
// rows as Go values, and several of them in order. It knows no table.
package stmt
