// Never tagged: the libraries that people come from, beside keyturn.
module github.com/keyturn/keyturn/examples/migrating

go 1.25.0

require (
	github.com/bsm/redislock v0.10.0
	github.com/go-redsync/redsync/v4 v4.17.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/keyturn/keyturn/store/redlock v0.0.0
	github.com/redis/go-redis/v9 v9.21.0
	github.com/redis/rueidis v1.0.79
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/keyturn/keyturn => ../../
	github.com/keyturn/keyturn/internal/redistest => ../../internal/redistest
	github.com/keyturn/keyturn/store/redisstore => ../../store/redisstore
	github.com/keyturn/keyturn/store/redlock => ../../store/redlock
)
