package courier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/examples/im/node"
)

const (
	// Messages is the number of messages. Each is sent once.
	Messages = 120
	// Kills is the number of workers that are killed.
	Kills   = 12
	workers = 3

	// drainTimeout is how long the play waits for the last messages.
	drainTimeout = 30 * time.Second
)

// Figures are the counts of what went wrong.
type Figures struct {
	// DeliveredTwice counts messages with more than one effect; each counts once.
	DeliveredTwice int `json:"delivered_twice"`
	// Lost counts messages without an effect.
	Lost int `json:"lost"`
}

// Starter starts a worker in a process of its own. kill ends it with SIGKILL, stop as usual.
type Starter func(ctx context.Context, name string) (kill, stop func() error, err error)

// Play delivers messages while workers are killed, and counts the effects by SQL. n takes no
// locks.
func Play(ctx context.Context, n *node.Node, start Starter) (sum Figures, err error) {
	db, err := openDatabase(n.Database, n.Run)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.migrate(ctx); err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, db.drop(context.WithoutCancel(ctx))) }()
	p := &play{Node: n, start: start, stops: make(map[string]func() error), kills: make(map[string]func() error)}
	defer func() { err = errors.Join(err, p.stopAll()) }()
	if err := p.run(ctx); err != nil {
		return sum, err
	}
	all, twice, err := db.count(ctx)
	return Figures{DeliveredTwice: twice, Lost: Messages - all}, err
}

// play is the running workers.
type play struct {
	*node.Node
	start        Starter
	started      int
	kills, stops map[string]func() error // by the worker's name
	dead         []string
}

func (p *play) run(ctx context.Context) error {
	for range workers {
		if err := p.startOne(ctx); err != nil {
			return err
		}
	}
	for n := range Messages {
		if err := p.Redis.RPush(ctx, queue(p.Run), fmt.Sprint(p.Run, "-", n)).Err(); err != nil {
			return err
		}
		if n%(Messages/Kills) != Messages/Kills-1 {
			continue
		}
		time.Sleep(rand.N(workTime)) // at random, while they are worked on
		if err := p.killOne(ctx); err != nil {
			return err
		}
	}
	return p.awaitDrained(ctx)
}

func (p *play) startOne(ctx context.Context) error {
	name := fmt.Sprint("courier ", p.started+1)
	kill, stop, err := p.start(ctx, name)
	if err != nil {
		return err
	}
	p.started++
	p.kills[name], p.stops[name] = kill, stop
	return nil
}

// killOne kills any worker, gives back what it had in hand, and starts another one.
func (p *play) killOne(ctx context.Context) error {
	for name, kill := range p.kills { // a map has no order
		if err := kill(); err != nil {
			return err
		}
		delete(p.kills, name)
		delete(p.stops, name)
		p.dead = append(p.dead, name)
		break
	}
	return errors.Join(p.giveBack(ctx), p.startOne(ctx))
}

// giveBack puts what the dead had in hand into the queue. Redis may notice only later that a worker
// is gone, and give it one more message; so it looks at all of them each time.
func (p *play) giveBack(ctx context.Context) error {
	for _, name := range p.dead {
		for {
			err := p.Redis.LMove(ctx, hand(p.Run, name), queue(p.Run), "LEFT", "RIGHT").Err()
			if errors.Is(err, redis.Nil) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitDrained waits until nobody has a message in hand, and none is left.
func (p *play) awaitDrained(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, fmt.Errorf("messages are still on their way after %v", drainTimeout))
	defer cancel()
	for {
		lists := []string{queue(p.Run)}
		for _, name := range append(slices.Collect(maps.Keys(p.kills)), p.dead...) {
			lists = append(lists, hand(p.Run, name))
		}
		if err := p.giveBack(ctx); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		left, err := p.Redis.Exists(ctx, lists...).Result() // one command, so that no message is between two lists
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *play) stopAll() error {
	var errs []error
	for _, stop := range p.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}
