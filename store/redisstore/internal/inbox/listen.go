package inbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/hooked"
	"github.com/keyturn/keyturn/internal/waitloop"
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

const (
	// stillness is the time without a message after which this process sends itself one, while
	// it has waiters. So a waiting process that hears nothing sends one per second.
	stillness = time.Second
	// echo is how long that message may take to come back.
	echo = 400 * time.Millisecond
	// echoes is how many of these messages may fail to come back before the subscription counts
	// as dead. One is not enough: after a pause of the process, the time is over before the
	// process has read what has arrived.
	echoes = 2
	// confirmation is the time that the server has to confirm a subscription.
	confirmation = 2 * time.Second
	// keepAliveTimeout bounds the sending of a message to ourselves.
	keepAliveTimeout = time.Second
	// refusedPause is the pause between attempts to subscribe when the server refuses them:
	// nobody changes permissions within a second.
	refusedPause = 30 * time.Second
	// firstPause is the pause after the first attempt that failed. Each further pause is twice
	// as long.
	firstPause = 5 * time.Millisecond
)

// What may be wrong with a subscription, apart from the client's own errors.
var (
	// ErrUnheard: the server accepts messages, but they do not arrive.
	ErrUnheard     = errors.New("messages are sent but do not reach the subscription: its connection is dead, or leads to another server")
	errUnconfirmed = fmt.Errorf("the subscription was not confirmed within %v", confirmation)
)

// keepAlive is the text of a message of this process to itself.
const keepAlive = "beat"

// listen keeps a subscription until ctx ends.
//
// Each attempt uses a new channel, because the channel decides to which node of a Cluster the
// subscription goes. When a node is gone, the next attempt may go to another one.
func (b *Inbox) listen(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := b.subscribed(ctx)
		b.becomes("", err)
		most := b.Retry
		if time.Since(began) > most { // the last subscription had worked
			pause = firstPause
		}
		if script.Refused(err) {
			most = refusedPause
		}
		waitloop.Sleep(ctx, pause)
		pause = min(2*pause, most)
	}
}

// subscribed subscribes and delivers messages until the connection breaks or turns out to be
// dead.
func (b *Inbox) subscribed(ctx context.Context) error {
	channel := b.Names.NewInbox()
	// A process that may not publish can't find out whether messages arrive. And a server that
	// does not answer here would keep a subscription waiting for longer.
	if _, err := b.Publish(ctx, channel, channel); err != nil {
		return err
	}
	sub := b.Client.Subscribe(ctx, channel)
	if !b.keep(sub) {
		return sub.Close()
	}
	defer sub.Close() // an error would say that it is closed already
	p := pulse{inbox: b, channel: channel}
	wait := confirmation
	for !p.elsewhere.Load() {
		msg, err := sub.ReceiveTimeout(ctx, wait)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			if wait, err = p.quiet(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		p.heard()
		wait = stillness
		switch msg := msg.(type) {
		case *redis.Subscription:
			p.confirmed = true
			b.becomes(channel, nil)
		case *redis.Message:
			b.deliver(msg.Payload)
		}
	}
	return ErrUnheard
}

// probe finds out at the start whether this process may send messages. A process that may not
// must say so in its leases, even if it never waits.
func (b *Inbox) probe() {
	if b.Names.Topology() == script.Ring {
		return
	}
	channel := b.Names.NewInbox()
	if _, err := b.Publish(b.Life, channel, channel); script.Refused(err) {
		b.becomes("", err)
	}
}

// Publish sends a message to channel and returns how many subscribers of that server receive
// it. If there are several servers, it uses the one that has name. With a lock's name, the
// message goes the way that messages about this lock go.
func (b *Inbox) Publish(ctx context.Context, channel, name string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, keepAliveTimeout)
	defer cancel()
	c := b.Client
	if cluster, ok := c.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, name)
		if err != nil {
			return 0, err
		}
		c = master
	}
	if one, ok := c.(*redis.Client); ok {
		return hooked.WithTimeout(one, keepAliveTimeout).Publish(ctx, channel, keepAlive).Result()
	}
	return c.Publish(ctx, channel, keepAlive).Result()
}

// pulse finds out whether messages arrive. Only the listener uses it.
type pulse struct {
	inbox     *Inbox
	channel   string
	confirmed bool

	sent     chan error // of the keep-alives: why one was not sent, or nil
	underWay int        // keep-alives whose outcome is not known yet
	missed   int        // keep-alives that were sent and did not arrive

	// elsewhere: nobody subscribes on the only server that requests go to. Keep-alives may arrive
	// nevertheless, if the subscription leads to a replica of that server, as after a failover.
	elsewhere atomic.Bool
}

// mostKeepAlives is how many keep-alives may be under way in a Cluster, where the next keep-alive may go through
// another node. With one server it is one.
const mostKeepAlives = 3

// heard records that a message came. So messages arrive, and keep-alives that were missed before do
// not count.
func (p *pulse) heard() { p.sent, p.underWay, p.missed = make(chan error, mostKeepAlives), 0, 0 }

// quiet is called after a time without a message. It returns for how long to listen on. An
// error says that the subscription is dead.
func (p *pulse) quiet(ctx context.Context) (time.Duration, error) {
	if !p.confirmed {
		return 0, errUnconfirmed
	}
	for len(p.sent) > 0 {
		p.underWay--
		if err := p.judge(<-p.sent); err != nil {
			return 0, err
		}
	}
	key := p.inbox.awaited()
	if key == "" {
		p.missed = 0
		return stillness, nil
	}
	// If the server does not answer, the subscription is not at fault.
	if p.underWay == 0 || p.underWay < mostKeepAlives && p.inbox.Names.Topology() == script.Cluster {
		p.keepAlive(ctx, key)
	}
	return echo, nil
}

// judge returns what a missed keep-alive says about the subscription. A keep-alive that could not be sent
// says nothing, unless the server refused it.
func (p *pulse) judge(unsent error) error {
	switch {
	case script.Refused(unsent):
		return unsent
	case unsent != nil:
		return nil
	}
	p.missed++
	if p.missed >= echoes {
		return ErrUnheard
	}
	return nil
}

func (p *pulse) keepAlive(ctx context.Context, key string) {
	sent := p.sent
	p.underWay++
	p.inbox.Go(func() {
		n, err := p.inbox.Publish(ctx, p.channel, p.inbox.Names.Lock(key))
		if err == nil && n == 0 && p.inbox.Names.Topology() == script.Single {
			p.elsewhere.Store(true)
		}
		sent <- err
	})
}
