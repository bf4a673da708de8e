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
	go.etcd.io/etcd/client/v3 v3.6.14
	go.uber.org/goleak v1.3.0
	go.uber.org/zap v1.27.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3 // indirect
	go.etcd.io/etcd/api/v3 v3.6.14 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.14 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/grpc v1.83.2 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/keyturn/keyturn => ../../
	github.com/keyturn/keyturn/internal/redistest => ../../internal/redistest
	github.com/keyturn/keyturn/store/redisstore => ../../store/redisstore
	github.com/keyturn/keyturn/store/redlock => ../../store/redlock
)
