// Never tagged: tests only.
module github.com/keyturn/keyturn/proof

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.0.2
	github.com/bsm/redislock v0.10.0
	github.com/go-redsync/redsync/v4 v4.17.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/redis/go-redis/v9 v9.21.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.2.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace (
	github.com/keyturn/keyturn => ../
	github.com/keyturn/keyturn/internal/redistest => ../internal/redistest
	github.com/keyturn/keyturn/store/redisstore => ../store/redisstore
)
