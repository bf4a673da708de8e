package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	_ "github.com/keyturn/keyturn/store/memstore" // mem:, which CheckStore explains
	"github.com/keyturn/keyturn/store/redisstore"
	_ "github.com/keyturn/keyturn/store/redlock" // redlock://
	"github.com/keyturn/keyturn/store/storeurl"
)

// openStore opens the store of the locks: that of the URL or, without one, a part of the fleet's
// Redis. The prefix there keeps runs apart. A program that has Redis to itself needs none.
func openStore(ctx context.Context, cfg Config, client *redis.Client) (driver.Store, error) {
	if cfg.StoreURL == "" {
		return redisstore.New(client, redisstore.WithPrefix(cfg.Run+":lock:"))
	}
	return storeurl.Open(ctx, cfg.StoreURL)
}

// CheckStore makes the tables or marks that the store of a URL needs, and returns its name for
// people. The fleet has several processes and remembers messages, so the store must do so, too.
func CheckStore(ctx context.Context, text string) (name string, err error) {
	u, err := storeurl.Parse(text)
	if err != nil {
		return "", err
	}
	st, err := u.Open(ctx)
	if err != nil { // perhaps for want of tables
		if err := u.Prepare(ctx); err != nil {
			return "", err
		}
		if st, err = u.Open(ctx); err != nil {
			return "", err
		}
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	switch about := st.Describe(); {
	case about.Local:
		return "", fmt.Errorf("%s: its locks are seen by one process alone, and this example has several", u)
	case !about.Ledger:
		return "", fmt.Errorf("%s: it keeps no records, so a message can't be processed once by its id", u)
	}
	_, _, err = st.List(ctx, "im", "", 1) // it answers
	return u.String(), err
}

// forgetRecords drops what the fleet's rules remember of its messages in the store of the URL.
func (n *Node) forgetRecords(ctx context.Context) (err error) {
	st, err := storeurl.Open(ctx, n.StoreURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, prefix := range []string{"message:" + n.Run, "courier:" + n.Run} {
		for cursor, more := "", true; more; more = cursor != "" {
			var page []driver.LockInfo
			if page, cursor, err = st.List(ctx, prefix, cursor, 100); err != nil {
				return err
			}
			for _, info := range page {
				if _, err := st.Forget(ctx, info.Key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
