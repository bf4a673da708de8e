module github.com/keyturn/keyturn/store/natsstore

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
	github.com/nats-io/nats.go v1.47.0
	github.com/nats-io/nuid v1.0.1
)

require (
	github.com/klauspost/compress v1.18.2 // indirect
	github.com/nats-io/nkeys v0.4.12 // indirect
	golang.org/x/crypto v0.46.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
)

replace github.com/keyturn/keyturn => ../..
