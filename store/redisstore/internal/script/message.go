package script

import (
	"strconv"
	"strings"
)

// Message is the message to a waiter that the lock has been passed to. The functions pass in
// line.lua and hand in group.lua write it. The zero value grants nothing and asks the waiter to
// ask.
type Message struct {
	Question uint64 // the number of the question that made the waiter's entry
	Token    uint64
	HandOffs uint64 // how many tokens are reserved for them
	Alone    bool   // no other process wants the lock, or had it just now
}

// ParseWanted reads the message that a lease of this process is wanted: its owner and the name of
// its lock. want in line.lua writes it. It reports false for any other message.
func ParseWanted(text string) (owner, lock string, ok bool) {
	return strings.Cut(text, " wanted ")
}

// ParseMessage reads a message to the waiter that owner names. A text that pass did not write,
// or that has no number, is a reason to ask.
func ParseMessage(text string) (owner string, m Message) {
	fields := strings.Split(text, " ")
	alone := len(fields) == 5 && fields[4] == "alone"
	if len(fields) != 4 && !alone {
		return fields[0], Message{}
	}
	var numbers [3]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(fields[1+i], 10, 64); err != nil {
			return fields[0], Message{}
		}
	}
	return fields[0], Message{Question: numbers[0], Token: numbers[1], HandOffs: numbers[2], Alone: alone}
}
