// Package onredis has what redisstore and redlock share: the text under which a lock is held, the names of keys, what
// go-redis reads of a store's URL, and what a server says.
package onredis
