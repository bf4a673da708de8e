package migrating

import (
	"context"

	"go.etcd.io/etcd/client/v3/concurrency"
)

func withEtcd(ctx context.Context, session *concurrency.Session, order string, charge work) error {
	mutex := concurrency.NewMutex(session, "order:"+order)
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(context.WithoutCancel(ctx))
	return charge(ctx) // which watches session.Done(): nothing ends ctx if the session expires
}
