// Package storetest has what the tests of stores, and of the packages that stores share, repeat: requests and
// waiters, a network for each process of the contract's suite, what Examine finds, and benchmarks beside other locks.
package storetest
