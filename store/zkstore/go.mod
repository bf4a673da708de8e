module github.com/keyturn/keyturn/store/zkstore

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/keyturn/keyturn v0.0.0-20261130211633-5724dc240f43
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
