// Package send claims and delivers messages in one process: a Delivery, made from the configuration, for daemons, and
// a Sender for commands that send visits and messages by hand.
package send
