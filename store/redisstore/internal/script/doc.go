// Package script holds the Lua scripts of redisstore, and all code that reads or writes what
// they exchange with Go. That is the names of the keys, the words of a request, the words of a
// reply, and the formats of the data in Redis: the lock's value, a record, a waiter's message.
// A change of a format changes one .lua and one .go file here, and nothing else.
//
// The package builds calls and reads answers. It does not know how a call gets to a server, who
// waits for it, or when a waiter asks.
package script
