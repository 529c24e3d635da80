// Package send has what one process sends with: a Delivery, made by the configuration, that claims and delivers; and a
// Sender, by which commands send visits and messages by hand.
package send
