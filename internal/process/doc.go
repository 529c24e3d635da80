// Package process starts, reports and stops the program's daemons. A daemon adds its components; see package daemons.
package process
