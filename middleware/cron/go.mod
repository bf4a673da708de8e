module github.com/keyturn/keyturn/middleware/cron

go 1.25.0

require (
	github.com/go-co-op/gocron/v2 v2.16.1
	github.com/google/uuid v1.6.0
	github.com/keyturn/keyturn v0.0.0-20261130214809-0402b4f2ba0a
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
)

require github.com/jonboulle/clockwork v0.5.0 // indirect

replace github.com/keyturn/keyturn => ../../
