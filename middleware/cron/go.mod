module github.com/keyturn/keyturn/middleware/cron

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
)

replace github.com/keyturn/keyturn => ../../
