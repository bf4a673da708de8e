module github.com/keyturn/keyturn/middleware/river

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0-20261130093957-e54345a23940
	github.com/riverqueue/river/rivertype v0.20.0
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
