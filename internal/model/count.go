package model

import "fmt"

// Count formats a number and a word in singular or plural: Count(1, "message is", "messages are") is "1 message is".
func Count[N ~int | ~int32 | ~int64 | ~uint64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
