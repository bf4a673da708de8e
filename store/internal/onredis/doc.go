// Package onredis has what redisstore and redlock share: the text under which a lock is held, the names of keys, and what
// go-redis reads of a store's URL.
package onredis
