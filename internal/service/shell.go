package service

import "strings"

// ShellWord quotes a word of a command that an operator copies into a shell.
func ShellWord(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
