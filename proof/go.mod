// Never tagged: tests only.
module github.com/keyturn/keyturn/proof

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.0.2
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/redis/go-redis/v9 v9.14.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.2.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
)

replace (
	github.com/keyturn/keyturn => ../
	github.com/keyturn/keyturn/internal/redistest => ../internal/redistest
	github.com/keyturn/keyturn/store/redisstore => ../store/redisstore
)
