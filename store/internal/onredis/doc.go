// Package onredis has what redisstore and redlock share: the text under which a lock is held, and what
// go-redis reads of a store's URL.
package onredis
