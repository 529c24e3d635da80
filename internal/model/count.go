package model

import "fmt"

// Count formats a number with the words after it: Count(n, "message is", "messages are") is
// "1 message is" or "2 messages are".
func Count[N ~int | ~int32 | ~int64 | ~uint64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
