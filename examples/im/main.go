// Im shows what keyturn is for. It runs a small IM service, two gateways and two replicas in
// processes of their own, and puts it under load: first without locks and then with them.
//
//	go run ./examples/im          # a table
//	go run ./examples/im -json    # one object
//
// The light command links Redis and no databases, so that it compiles soon. The other one has everything:
//
//	go run ./examples/im/all
//
// With -db it also delivers messages into a database while workers are killed with SIGKILL at
// random. The table then has rows for that. "sqlite" is a file that is deleted afterwards.
//
//	go run ./examples/im/all -db sqlite
//	go run ./examples/im/all -db postgres://...
//
// With -store its locks are somewhere else than its data. What the rules remember of messages is
// deleted there afterwards; tables stay.
//
//	go run ./examples/im -store redis://... # also redis+sentinel, redis+cluster
//	go run ./examples/im/all -store etcd://...
//	go run ./examples/im/all -store postgres://...
//	go run ./examples/im/all -store mysql://...
//	go run ./examples/im/all -store zk://...
//	go run ./examples/im/all -store sqlite:FILE
//
// With -observe it shows instead what a request waits for: the trace of a request that was
// blocked, beside that of the request which blocked it. It also prints where each process
// serves its metrics, until Ctrl-C.
//
//	go run ./examples/im/all -observe
//	go run ./examples/im/all -observe -svg trace.svg
//
// With -console it runs the service with slow handlers, and serves the console over its locks until
// Ctrl-C. Two of the handlers nest keys in opposite orders, so there is a deadlock to find and to end.
//
//	go run ./examples/im/all -console
//
// With -for it is a soak: the service under load for so long. Meanwhile a gateway, a service and a Redis of
// its own are killed with SIGKILL and started again; Redis also pauses, forgets its scripts and closes
// subscriptions. It prints how large the other processes and the Redis are. go run ./proof/bench -soak draws
// the samples.
//
//	go run ./examples/im -for 1h
//	go run ./examples/im -for 1h -rate 25 -csv soak.csv
//
// It needs nothing but Go. REDIS_URL=redis://... names the Redis to use, in which it leaves
// nothing behind. Without it, it runs a redis-server of its own, or an embedded one if that is
// not installed. The exit code is 1 if anything went wrong in spite of the locks.
//
// To read it, begin with service/ and gateway/: the handlers, and one line next to them for
// each lock. Everything else runs the service and counts.
//
//	service/   a replica: gRPC methods and an asynq worker
//	gateway/   a gateway: Echo routes
//	courier/   workers that are killed, and messages that have one effect all the same
//	delivery/  what gateways and services share about messages
//	db/        the database behind the replicas, which protects nothing
//	node/      a process's connection to Redis, and its lock engine
//	load/      the clients, and the count of what went wrong
//	fleet/     starting and ending the processes
//	anyredis/  finding a Redis
//	report/    the table and the JSON
//	run/       the parts of a run: two fleets under load, a soak
//	all/       the command with everything
//	observe/   telemetry: spans to one place, metrics for Prometheus, the picture
package main

import (
	"github.com/keyturn/keyturn/examples/im/run"
	_ "github.com/keyturn/keyturn/store/redisstore" // redis://
)

func main() { run.Main(run.Parts{}) }
