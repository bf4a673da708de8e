// Package script holds the Lua scripts of redisstore and everything that reads or writes
// what they exchange with Go: the names of the keys, the words of a request, the words of
// a reply, and the formats of what stands in Redis (the lock's value, a record, a waiter's
// message). A format changes here, in one .lua and one .go file, and nowhere else.
//
// The package builds calls and reads answers. It does not know how a call gets to a
// server, who waits for it, or when a waiter asks.
package script
