package migrating

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/store/redlock"
)

// peer is what a service used before, and the engine that shares its locks.
type peer struct {
	name   string
	nodes  int // independent servers
	open   func(addrs []string, ttl time.Duration) (library, error)
	prefix string                          // of the engine
	claims func(order string) []core.Claim // nil: the key "order:<order>"
	after  func(ctx context.Context, eng *core.Engine, order string, charge work) error
}

// library is a library as its own documentation says to use it. Its locks end after the TTL that
// it was opened with, if nobody renews them.
type library interface {
	// try returns errTaken if somebody else has the order's lock.
	try(ctx context.Context, order string) (*lock, error)
	// before is the service with the old lock, such as withRedislock.
	before(ctx context.Context, order string, charge work) error
	close()
}

// lock is what a library has given.
type lock struct {
	renew, release func(ctx context.Context) error
}

var errTaken = errors.New("somebody else has the lock")

var peers = []peer{
	{name: "SET NX", nodes: 1, open: openSetNX, prefix: "lock:", after: withKeyturn},
	{name: "redislock", nodes: 1, open: openRedislock, after: withKeyturn},
	{name: "redsync", nodes: 1, open: openRedsync, after: withKeyturn},
	{name: "redsync on three servers", nodes: 3, open: openRedsync, after: withKeyturn},
	{name: "rueidislock with one key", nodes: 1, open: openRueidislock(1), prefix: "rueidislock:0:", after: withKeyturn},
	{name: "rueidislock with three keys", nodes: 1, open: openRueidislock(2), prefix: "rueidislock:", claims: func(order string) []core.Claim {
		return []core.Claim{core.Exclusive("0:order:" + order), core.Exclusive("1:order:" + order)}
	}, after: withThreeKeys},
}

func peerNamed(name string) *peer {
	for i := range peers {
		if peers[i].name == name {
			return &peers[i]
		}
	}
	panic("no peer is named " + name)
}

// engine is the one of docs/migrating.md.
func (p *peer) engine(addrs []string) (eng *core.Engine, end func(), err error) {
	clients := clientsOf(addrs)
	if p.nodes > 1 {
		eng, err = newRedlockEngine(clients)
	} else {
		eng, err = newEngine(clients[0], p.prefix)
	}
	return eng, func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = eng.Close(ctx)
		closeAll(clients)
	}, err
}

// initNodes does what an operator does once with new nodes.
func initNodes(ctx context.Context, addrs []string) error {
	clients := clientsOf(addrs)
	defer closeAll(clients)
	store, err := redlock.New(clients, redlock.WithPrefix(""))
	if err != nil {
		return err
	}
	return errors.Join(store.Init(ctx), store.Close())
}

func clientsOf(addrs []string) (all []*redis.Client) {
	for _, addr := range addrs {
		all = append(all, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return all
}

func closeAll(clients []*redis.Client) {
	for _, c := range clients {
		_ = c.Close()
	}
}

func (p *peer) acquire(ctx context.Context, eng *core.Engine, order string, opts ...core.CallOption) (*core.Lease, error) {
	claims := []core.Claim{core.Exclusive("order:" + order)}
	if p.claims != nil {
		claims = p.claims(order)
	}
	return eng.AcquireAll(ctx, claims, opts...)
}
