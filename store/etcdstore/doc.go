// Package etcdstore keeps leases in etcd.
package etcdstore
