// Never tagged: tests only.
module github.com/keyturn/keyturn/middleware/replicatest

go 1.25.0

require (
	connectrpc.com/connect v1.19.0
	github.com/hibiken/asynq v0.26.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/internal/sqltest v0.0.0
	github.com/keyturn/keyturn/middleware/asynq v0.0.0
	github.com/keyturn/keyturn/middleware/connect v0.0.0
	github.com/keyturn/keyturn/middleware/cron v0.0.0
	github.com/keyturn/keyturn/middleware/echo v0.0.0
	github.com/keyturn/keyturn/middleware/gocron v0.0.0
	github.com/keyturn/keyturn/middleware/grpc v0.0.0
	github.com/keyturn/keyturn/middleware/river v0.0.0
	github.com/keyturn/keyturn/store/etcdstore v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/keyturn/keyturn/store/sqlstore v0.0.0
	github.com/keyturn/keyturn/store/zkstore v0.0.0
	github.com/labstack/echo/v4 v4.16.0
	github.com/redis/go-redis/v9 v9.14.1
	github.com/riverqueue/river/rivertype v0.40.0
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa
	google.golang.org/grpc v1.83.2
)

require (
	filippo.io/edwards25519 v1.1.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.0 // indirect
	github.com/coreos/go-systemd/v22 v22.3.2 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-co-op/gocron/v2 v2.16.1 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-sql-driver/mysql v1.9.3 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.9.2 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/keyturn/keyturn/proto v0.0.0 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
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
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	modernc.org/libc v1.75.7 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.59.0 // indirect
)

replace (
	github.com/keyturn/keyturn => ../../
	github.com/keyturn/keyturn/internal/redistest => ../../internal/redistest
	github.com/keyturn/keyturn/internal/sqltest => ../../internal/sqltest
	github.com/keyturn/keyturn/middleware/asynq => ../asynq
	github.com/keyturn/keyturn/middleware/connect => ../connect
	github.com/keyturn/keyturn/middleware/cron => ../cron
	github.com/keyturn/keyturn/middleware/echo => ../echo
	github.com/keyturn/keyturn/middleware/gocron => ../gocron
	github.com/keyturn/keyturn/middleware/grpc => ../grpc
	github.com/keyturn/keyturn/middleware/river => ../river
	github.com/keyturn/keyturn/proto => ../../proto
	github.com/keyturn/keyturn/store/etcdstore => ../../store/etcdstore
	github.com/keyturn/keyturn/store/redisstore => ../../store/redisstore
	github.com/keyturn/keyturn/store/sqlstore => ../../store/sqlstore
	github.com/keyturn/keyturn/store/zkstore => ../../store/zkstore
)
