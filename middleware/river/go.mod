module github.com/keyturn/keyturn/middleware/river

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
	github.com/riverqueue/river/rivertype v0.20.0
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
