// Package natstest tests store/natsstore with servers of NATS in this process. It is here because a module
// should not require a server for its tests.
package natstest
