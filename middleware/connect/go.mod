module github.com/keyturn/keyturn/middleware/connect

go 1.25.0

require (
	connectrpc.com/connect v1.19.0
	github.com/keyturn/keyturn v0.0.0
	github.com/keyturn/keyturn/middleware/grpc v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/keyturn/keyturn/proto v0.0.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/keyturn/keyturn => ../../

replace github.com/keyturn/keyturn/middleware/grpc => ../grpc

replace github.com/keyturn/keyturn/proto => ../../proto
