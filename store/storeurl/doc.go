// Package storeurl opens a store by its URL, so that a program's configuration decides where its
// locks are:
//
//	import (
//		"github.com/keyturn/keyturn/store/storeurl"
//		_ "github.com/keyturn/keyturn/store/redisstore" // redis://, rediss:// and so on
//	)
//
//	st, err := storeurl.Open(ctx, "redis://:password@localhost:6379/0?prefix=lock:")
//	...
//	eng, err := core.New(st)
//	...
//	defer eng.Close(ctx) // closes the store, and with it all that Open has made
//
// # Schemes
//
// The package of each store registers its schemes when it is imported, as the drivers of
// database/sql do. Its own documentation lists the parameters.
//
//	redis://HOST         store/redisstore    one server; rediss:// with TLS; redis+unix:/PATH for a socket
//	redis+sentinel://    store/redisstore    the Sentinels, as in redis+sentinel://a,b,c/0?master_name=locks
//	redis+cluster://     store/redisstore    some nodes of a Cluster
//	redlock://a,b,c      store/redlock       independent servers
//	etcd://a,b,c         store/etcdstore     etcds:// with TLS
//	zk://a,b,c/PATH      store/zkstore       PATH is the root of the store's nodes; zks:// with TLS
//	nats://a,b,c/BUCKET  store/natsstore     natss:// with TLS
//	postgres://HOST/DB   store/sqlstore      also needs a driver of database/sql
//	mysql://HOST/DB      store/sqlstore      the same
//	sqlite:FILE          store/sqlstore      the same
//	mem:NAME             store/memstore      for one process
//
// A URL has the form SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?PARAMETER=VALUE. Characters
// that mean something there, such as @ / ? # % in a password, are written as %40 %2F %3F %23 %25.
// Where a store has a name space for its keys, the parameter prefix sets it.
//
// # Errors
//
// An error of this package names the URL without its user, password and parameters. The password is
// also cut from what a driver or client says. A URL that is wrong matches [ErrInvalidURL], and is
// refused before any I/O.
package storeurl
