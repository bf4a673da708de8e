module github.com/keyturn/keyturn/middleware/river

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0-20261130211633-5724dc240f43
	github.com/riverqueue/river/rivertype v0.20.0
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
