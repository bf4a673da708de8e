module github.com/keyturn/keyturn/middleware/river

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0-20261129203450-d4afc48d4b8d
	github.com/riverqueue/river/rivertype v0.40.0
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
