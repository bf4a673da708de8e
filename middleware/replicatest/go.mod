// Never tagged: tests only.
module github.com/keyturn/keyturn/middleware/replicatest

go 1.25.0

require (
	github.com/hibiken/asynq v0.26.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/middleware/asynq v0.0.0
	github.com/keyturn/keyturn/middleware/echo v0.0.0
	github.com/keyturn/keyturn/middleware/grpc v0.0.0
	github.com/keyturn/keyturn/store/etcdstore v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/labstack/echo/v4 v4.16.0
	github.com/redis/go-redis/v9 v9.14.1
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa
	google.golang.org/grpc v1.83.2
)

require (
	github.com/coreos/go-semver v0.3.0 // indirect
	github.com/coreos/go-systemd/v22 v22.3.2 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	go.etcd.io/etcd/api/v3 v3.5.10 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.5.10 // indirect
	go.etcd.io/etcd/client/v3 v3.5.10 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.44.0 // indirect
	go.opentelemetry.io/otel/metric v1.44.0 // indirect
	go.opentelemetry.io/otel/trace v1.44.0 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	go.uber.org/multierr v1.6.0 // indirect
	go.uber.org/zap v1.17.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/keyturn/keyturn/proto v0.0.0 // indirect
	github.com/keyturn/keyturn/store/zkstore v0.0.0
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/keyturn/keyturn => ../../
	github.com/keyturn/keyturn/internal/redistest => ../../internal/redistest
	github.com/keyturn/keyturn/middleware/asynq => ../asynq
	github.com/keyturn/keyturn/middleware/echo => ../echo
	github.com/keyturn/keyturn/middleware/grpc => ../grpc
	github.com/keyturn/keyturn/proto => ../../proto
	github.com/keyturn/keyturn/store/etcdstore => ../../store/etcdstore
	github.com/keyturn/keyturn/store/redisstore => ../../store/redisstore
)

replace github.com/keyturn/keyturn/store/zkstore => ../../store/zkstore
