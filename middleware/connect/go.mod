module github.com/keyturn/keyturn/middleware/connect

go 1.25.0

require (
	connectrpc.com/connect v1.16.0
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240318140521-94a12d6c2237
	google.golang.org/grpc v1.64.1
	google.golang.org/protobuf v1.36.10
)

require (
	golang.org/x/net v0.32.0 // indirect
	golang.org/x/sys v0.37.0 // indirect
	golang.org/x/text v0.21.0 // indirect
)

replace github.com/keyturn/keyturn => ../../
