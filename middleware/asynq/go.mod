module github.com/keyturn/keyturn/middleware/asynq

go 1.25.0

require (
	github.com/hibiken/asynq v0.26.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/internal/redistest v0.0.0
	github.com/keyturn/keyturn/store/redisstore v0.0.0
	github.com/redis/go-redis/v9 v9.14.1
	go.opentelemetry.io/otel v1.16.0
	go.opentelemetry.io/otel/trace v1.16.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/go-logr/logr v1.2.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	go.opentelemetry.io/otel/metric v1.16.0 // indirect
	golang.org/x/sys v0.37.0 // indirect
	golang.org/x/time v0.14.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace (
	github.com/keyturn/keyturn => ../../
	github.com/keyturn/keyturn/internal/redistest => ../../internal/redistest
	github.com/keyturn/keyturn/store/redisstore => ../../store/redisstore
)
