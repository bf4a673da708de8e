module github.com/keyturn/keyturn/store/zkstore

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
