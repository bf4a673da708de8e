package script

import (
	"strconv"
	"strings"
)

// Message is what a waiter is told when the lock has been passed to it; pass in
// line.lua and hand in group.lua write it. The zero value says no more than to look.
type Message struct {
	Question uint64 // the number of the one that made the waiter's entry
	Token    uint64
	Alone    bool // no other process wants the lock, or had it just now
}

// ParseMessage gives what the owner named is to be told: what is no message of
// pass's, or comes without a number, is a reason to look.
func ParseMessage(text string) (owner string, m Message) {
	fields := strings.Split(text, " ")
	alone := len(fields) == 4 && fields[3] == "alone"
	if len(fields) != 3 && !alone {
		return fields[0], Message{}
	}
	question, err := strconv.ParseUint(fields[1], 10, 64)
	token, bad := strconv.ParseUint(fields[2], 10, 64)
	if err != nil || bad != nil {
		return fields[0], Message{}
	}
	return fields[0], Message{Question: question, Token: token, Alone: alone}
}
