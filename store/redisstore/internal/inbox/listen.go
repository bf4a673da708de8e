package inbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

const (
	// stillness is after how long without a message this process sends itself one, while
	// anybody waits. (A process that waits sends one per second, if it hears nothing.)
	stillness = time.Second
	// echo is how long that one may take to come back.
	echo = 400 * time.Millisecond
	// echoes is how often it may fail to: a process that stood still for a while finds
	// its time over before it has read what is there.
	echoes = 2
	// confirmation is what the server has to confirm a subscription.
	confirmation = 2 * time.Second
	// beatTimeout bounds the sending of a message to ourselves.
	beatTimeout = time.Second
	// refusedPause is between attempts to subscribe when the server answers, but
	// with a refusal: permissions are not given from one second to the next.
	refusedPause = 30 * time.Second
	// firstPause is after the first attempt that failed; the next are twice as long each.
	firstPause = 5 * time.Millisecond
)

// What may be wrong with a subscription, besides errors of the client's.
var (
	// ErrUnheard: messages are sent, and do not come.
	ErrUnheard     = errors.New("messages are sent but do not reach the subscription: its connection is dead, or leads to another server")
	errUnconfirmed = fmt.Errorf("the subscription was not confirmed within %v", confirmation)
)

// beat is a message of this process to itself.
const beat = "beat"

// listen keeps a subscription until ctx ends.
//
// Each is to a channel of its own, because it is the channel that decides to which
// node of a Cluster the subscription goes: when one is gone the next attempt may go
// to another.
func (b *Inbox) listen(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := b.subscribed(ctx)
		b.lost(err)
		most := b.Retry
		if time.Since(began) > most { // that one had worked
			pause = firstPause
		}
		if script.Refused(err) {
			most = refusedPause
		}
		sleep(ctx, pause)
		pause = min(2*pause, most)
	}
}

// subscribed subscribes and delivers until the connection breaks, or turns out to be
// dead.
func (b *Inbox) subscribed(ctx context.Context) error {
	channel := b.Names.NewInbox()
	// Who may not send can't find out whether messages arrive either. And a server that
	// does not answer this would keep a subscription waiting for longer.
	if _, err := b.Publish(ctx, channel, channel); err != nil {
		return err
	}
	sub := b.Client.Subscribe(ctx, channel)
	if !b.keep(sub) {
		return sub.Close()
	}
	defer sub.Close() // an error would be that it is closed
	p := pulse{inbox: b, channel: channel}
	wait := confirmation
	for {
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
			b.found(channel)
		case *redis.Message:
			b.deliver(msg.Payload)
		}
	}
}

// probe finds out at the start whether this process may send messages: one that may not
// must say so with its leases, even if it never waits.
func (b *Inbox) probe() {
	if b.Names.Topology() == script.Ring {
		return
	}
	channel := b.Names.NewInbox()
	if _, err := b.Publish(b.Life, channel, channel); script.Refused(err) {
		b.lost(err)
	}
}

// Publish sends a message to channel, from the server that has name if there are
// several, and returns how many hear it there. For a lock's name that is the way that
// messages about that lock take.
func (b *Inbox) Publish(ctx context.Context, channel, name string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
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
		c = one.WithTimeout(beatTimeout)
	}
	return c.Publish(ctx, channel, beat).Result()
}

// pulse finds out whether messages arrive. It is the listener's.
type pulse struct {
	inbox     *Inbox
	channel   string
	confirmed bool

	sent     chan outcome // of the beats
	underWay int          // beats that no outcome is known of
	missed   int          // beats that were sent and not heard
}

// outcome is what became of the sending of a beat.
type outcome struct {
	receivers int64
	err       error
}

// mostBeats is how many may be under way in a Cluster, where the next one may take
// another way. Where there is one server, it is one.
const mostBeats = 3

// heard notes that something came: messages arrive, and what was not heard before does
// not matter.
func (p *pulse) heard() { p.sent, p.underWay, p.missed = make(chan outcome, mostBeats), 0, 0 }

// quiet says for how long to listen on after some time without a word; the error says
// that there is no point.
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
	// A server that does not answer is no fault of the subscription's.
	if p.underWay == 0 || p.underWay < mostBeats && p.inbox.Names.Topology() == script.Cluster {
		p.beat(ctx, key)
	}
	return echo, nil
}

// judge says what a beat that was not heard tells of the subscription. One that could
// not be sent tells nothing, unless it was refused.
func (p *pulse) judge(o outcome) error {
	switch {
	case script.Refused(o.err):
		return o.err
	case o.err != nil:
		return nil
	}
	p.missed++
	if p.missed >= echoes || o.receivers == 0 && p.inbox.Names.Topology() == script.Single {
		return ErrUnheard
	}
	return nil
}

func (p *pulse) beat(ctx context.Context, key string) {
	sent := p.sent
	p.underWay++
	p.inbox.Go(func() {
		n, err := p.inbox.Publish(ctx, p.channel, p.inbox.Names.Lock(key))
		sent <- outcome{n, err}
	})
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
